/** Skilldock in one process: run skills, compose an executor. Queue and workers have their own entry points. */
export { runSkill, type RunSkillOptions } from "./run-skill.ts";
export { Executor, type ExecutorOptions, type LocalRunRequest } from "./worker/executor/executor.ts";
export type { Audit, AuditEvent } from "./worker/executor/audit.ts";
export { loadCatalog } from "./worker/catalog/load-catalog.ts";
export type { Catalog, Diagnostic, ManifestEntry, Skill } from "./worker/catalog/catalog.ts";
export { createModelRouter } from "./worker/model/router.ts";
export { createChatModel, type ChatModelOptions } from "./worker/model/chat.ts";
export { ScriptedModel, type ModelScriptEntry, type ScriptStep } from "./worker/model/scripted.ts";
export type {
  Model,
  ModelCompletion,
  ModelMessage,
  ModelPrice,
  ModelRequest,
  ModelRoute,
  ModelRouter,
  ModelStreamItem,
  ModelTool,
  ModelToolCall,
  ModelUsage,
} from "./worker/model/model.ts";
export type { CallerTool, ToolContext } from "./worker/tools/tool.ts";
export type { Clock } from "./shared/clock.ts";
export { RunError, type ErrorBody, type ErrorCode } from "./shared/errors.ts";
export type { RunEvent, EventData, EventType } from "./shared/contracts/event.ts";
export type { Receipt } from "./shared/contracts/receipt.ts";
export type { RunRequest, RunRequestInput, RunLimits } from "./shared/contracts/request.ts";
export type { Evidence, RunResult, RunState, TerminalState, Usage } from "./shared/contracts/result.ts";
export type { WorkspacePolicy } from "./shared/contracts/policy.ts";

/** `skilldock/worker`: takes runs from the queue and executes them. */
export { startWorker, type RunningWorker } from "./worker.ts";
export type { WorkerOptions } from "./worker-options.ts";
export { createModelRouter } from "./model/router.ts";
export { createChatModel, type ChatModelOptions } from "./model/chat.ts";
export { ScriptedModel, type ModelScriptEntry, type ScriptStep } from "./model/scripted.ts";
export type { Model, ModelRoute, ModelRouter } from "./model/model.ts";
export type { CallerTool, ToolContext } from "./tools/tool.ts";
export type { Audit, AuditEvent } from "./executor/audit.ts";

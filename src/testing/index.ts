/** For the tests of those who build on Skilldock: a model that follows a script, and the suites that every port's adapter must pass. */
export { ScriptedModel, type ModelScriptEntry, type ScriptStep } from "../worker/model/scripted.ts";
export { createMemorySandbox } from "../sandbox/memory/memory-sandbox.ts";
export {
  type ConformanceAnswer,
  type ConformanceModel,
  modelConformance,
  type ModelConformanceOptions,
} from "./model-conformance.ts";
export type { SandboxCase } from "./sandbox-cases.ts";
export { SANDBOX_CONFORMANCE } from "./sandbox-conformance.ts";

export type { ExecOptions, ExecResult, Sandbox, SandboxBackend, SandboxLabels, WorkspaceEntry } from "./backend.ts";
export { createDockerSandbox } from "./docker/docker-sandbox.ts";
export type { DockerSandboxOptions, SandboxLogger } from "./docker/settings.ts";
export { createMemorySandbox } from "./memory/memory-sandbox.ts";

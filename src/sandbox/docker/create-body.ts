import type { ContainerCreateOptions, HostConfig } from "dockerode";
import type { WorkspacePolicy } from "../../shared/contracts/policy.ts";
import type { SandboxLabels } from "../backend.ts";
import { WORKSPACE_ROOT } from "../workspace-path.ts";
import { maxDirectories } from "../workspace-rules.ts";
import { SECCOMP_PROFILE } from "./seccomp.ts";
import type { DockerSettings } from "./settings.ts";

/** Who PID 1 is: no command can signal it or look into it. */
const HOLDER = "65533";
/** Who every command and every helper is. */
export const WORKLOAD_USER = "65534:65534";

/** The labels on a container; sweeps filter by the same names. */
export const LABELS = {
  sandbox: "skilldock.sandbox",
  installation: "skilldock.installation",
  owner: "skilldock.owner",
  run: "skilldock.run",
  tenant: "skilldock.tenant",
  attempt: "skilldock.attempt",
  deadline: "skilldock.deadline",
} as const;

/** The engine's own shape; the library's types lack one field. */
interface SandboxHostConfig extends HostConfig {
  readonly CgroupnsMode: "private";
}

/** What of a container does not come from policy and labels. */
export interface ContainerSettings extends Pick<
  DockerSettings,
  "image" | "runtime" | "memoryBytes" | "cpus" | "pidsLimit"
> {
  /** Seconds after which PID 1 ends by itself, whatever happened to its owner. */
  readonly lifeSeconds: number;
}

/**
 * The whole request that makes a sandbox: everything that holds for a container is said here and nowhere else.
 *
 * PID 1 is a `cat` that ends with the stdin which the worker holds, inside a `timeout` that ends without it:
 * a dead worker's container is gone at once, a hung worker's at its deadline.
 */
export function createBody(
  policy: WorkspacePolicy,
  labels: SandboxLabels,
  settings: ContainerSettings,
): ContainerCreateOptions {
  return {
    Image: settings.image,
    Entrypoint: [],
    Cmd: ["timeout", "-s", "KILL", String(settings.lifeSeconds), "cat"],
    User: `${HOLDER}:${HOLDER}`,
    WorkingDir: WORKSPACE_ROOT,
    Hostname: "sandbox",
    // A name without a value takes away what the engine would set.
    Env: ["HOSTNAME", "PATH=/usr/local/bin:/usr/bin:/bin"],
    NetworkDisabled: true,
    Tty: false,
    OpenStdin: true,
    StdinOnce: true,
    AttachStdin: true,
    AttachStdout: false,
    AttachStderr: false,
    StopTimeout: 0,
    Labels: toContainerLabels(labels),
    HostConfig: hostConfig(policy, settings),
  };
}

function hostConfig(policy: WorkspacePolicy, settings: ContainerSettings): SandboxHostConfig {
  const quota = workspaceQuota(policy);
  const memoryBytes = settings.memoryBytes + quota.bytes;
  return {
    AutoRemove: true,
    Init: true,
    ...(settings.runtime === undefined ? {} : { Runtime: settings.runtime }),
    NetworkMode: "none",
    ReadonlyRootfs: true,
    // `private` would leave a writable /dev/shm outside the quota.
    IpcMode: "none",
    CgroupnsMode: "private",
    Privileged: false,
    CapDrop: ["ALL"],
    SecurityOpt: ["no-new-privileges:true", `seccomp=${JSON.stringify(SECCOMP_PROFILE)}`],
    PidsLimit: settings.pidsLimit,
    Memory: memoryBytes,
    MemorySwap: memoryBytes,
    NanoCpus: Math.round(settings.cpus * 1e9),
    Binds: [],
    Devices: [],
    Tmpfs: {
      [WORKSPACE_ROOT]: `rw,nosuid,nodev,exec,size=${quota.bytes},nr_inodes=${quota.inodes},uid=${HOLDER},gid=${HOLDER}`,
    },
    Sysctls: { "kernel.shmall": "0", "kernel.msgmni": "0", "kernel.sem": "0 0 0 0", "fs.mqueue.queues_max": "0" },
    Ulimits: [
      { Name: "fsize", Soft: policy.maxFileBytes, Hard: policy.maxFileBytes },
      { Name: "nofile", Soft: 256, Hard: 256 },
      { Name: "core", Soft: 0, Hard: 0 },
      { Name: "memlock", Soft: 0, Hard: 0 },
    ],
    LogConfig: { Type: "none", Config: {} },
    RestartPolicy: { Name: "no" },
  };
}

const PAGE_BYTES = 4_096;
/** Inodes beside files and directories: the root, and files on their way to their name. */
const SPARE_INODES = 300;

/**
 * The kernel's limits stand behind the exact audit, so they have headroom: every file's last page, and one file
 * that is written beside the one it replaces. A quota of exactly the policy's figures refuses legal file sets.
 */
function workspaceQuota(policy: WorkspacePolicy): { readonly bytes: number; readonly inodes: number } {
  const bytes =
    policy.maxTotalBytes + policy.maxFiles * (PAGE_BYTES - 1) + Math.min(policy.maxFileBytes, policy.maxTotalBytes);
  return {
    bytes: Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES + PAGE_BYTES,
    inodes: policy.maxFiles + maxDirectories(policy) + SPARE_INODES,
  };
}

function toContainerLabels(labels: SandboxLabels): Record<string, string> {
  return {
    [LABELS.sandbox]: "1",
    [LABELS.installation]: labels.installation,
    [LABELS.owner]: labels.owner,
    [LABELS.run]: labels.runId,
    [LABELS.tenant]: labels.tenantId,
    [LABELS.attempt]: String(labels.attempt),
    [LABELS.deadline]: String(labels.deadline),
  };
}

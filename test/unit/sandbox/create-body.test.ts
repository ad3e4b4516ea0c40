import { expect, it } from "vitest";
import { createBody } from "../../../src/sandbox/docker/create-body.ts";
import { SECCOMP_PROFILE } from "../../../src/sandbox/docker/seccomp.ts";
import type { WorkspacePolicy } from "../../../src/shared/contracts/policy.ts";

const policy: WorkspacePolicy = {
  maxFiles: 100,
  maxTotalBytes: 10_000_000,
  maxFileBytes: 1_000_000,
  commandTimeoutMs: 20_000,
  maxCommandOutputBytes: 100_000,
  environment: { LANG: "C.UTF-8" },
  network: "disabled",
};
const labels = {
  installation: "shop",
  owner: "worker-1",
  runId: "run-00000001",
  tenantId: "acme",
  attempt: 2,
  deadline: 1_700_000_000_000,
};
const settings = {
  image: "skilldock-sandbox:1",
  runtime: undefined,
  memoryBytes: 268_435_456,
  cpus: 1.5,
  pidsLimit: 64,
  lifeSeconds: 360,
};

it("the whole request that makes a container is this and nothing else", () => {
  expect(createBody(policy, labels, settings)).toStrictEqual({
    Image: "skilldock-sandbox:1",
    Entrypoint: [],
    Cmd: ["timeout", "-s", "KILL", "360", "cat"],
    User: "65533:65533",
    WorkingDir: "/workspace",
    Hostname: "sandbox",
    Env: ["HOSTNAME", "PATH=/usr/local/bin:/usr/bin:/bin"],
    NetworkDisabled: true,
    Tty: false,
    OpenStdin: true,
    StdinOnce: true,
    AttachStdin: true,
    AttachStdout: false,
    AttachStderr: false,
    StopTimeout: 0,
    Labels: {
      "skilldock.sandbox": "1",
      "skilldock.installation": "shop",
      "skilldock.owner": "worker-1",
      "skilldock.run": "run-00000001",
      "skilldock.tenant": "acme",
      "skilldock.attempt": "2",
      "skilldock.deadline": "1700000000000",
    },
    HostConfig: {
      AutoRemove: true,
      Init: true,
      NetworkMode: "none",
      ReadonlyRootfs: true,
      IpcMode: "none",
      CgroupnsMode: "private",
      Privileged: false,
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges:true", `seccomp=${JSON.stringify(SECCOMP_PROFILE)}`],
      PidsLimit: 64,
      Memory: 279_851_008,
      MemorySwap: 279_851_008,
      NanoCpus: 1_500_000_000,
      Binds: [],
      Devices: [],
      Tmpfs: { "/workspace": "rw,nosuid,nodev,exec,size=11415552,nr_inodes=1500,uid=65533,gid=65533" },
      Sysctls: { "kernel.shmall": "0", "kernel.msgmni": "0", "kernel.sem": "0 0 0 0", "fs.mqueue.queues_max": "0" },
      Ulimits: [
        { Name: "fsize", Soft: 1_000_000, Hard: 1_000_000 },
        { Name: "nofile", Soft: 256, Hard: 256 },
        { Name: "core", Soft: 0, Hard: 0 },
        { Name: "memlock", Soft: 0, Hard: 0 },
      ],
      LogConfig: { Type: "none", Config: {} },
      RestartPolicy: { Name: "no" },
    },
  });
});

it("a configured runtime is asked for", () => {
  expect(createBody(policy, labels, { ...settings, runtime: "runsc" }).HostConfig?.Runtime).toBe("runsc");
});

it("the system calls that reach past a container are not on the list", () => {
  expect(SECCOMP_PROFILE.defaultAction).toBe("SCMP_ACT_ERRNO");
  const unconditional: readonly string[] = SECCOMP_PROFILE.syscalls[0].names;
  const closed = [
    "socket",
    "socketpair",
    "clone",
    "clone3",
    "io_uring_setup",
    "io_uring_enter",
    "ptrace",
    "process_vm_readv",
  ];
  const more = [
    "keyctl",
    "add_key",
    "request_key",
    "unshare",
    "setns",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "bpf",
  ];
  const rest = [
    "perf_event_open",
    "userfaultfd",
    "shmget",
    "msgget",
    "semget",
    "mq_open",
    "open_by_handle_at",
    "personality",
  ];
  const last = [
    "init_module",
    "finit_module",
    "kexec_load",
    "reboot",
    "swapon",
    "clock_settime",
    "syslog",
    "acct",
    "quotactl",
  ];
  for (const name of [...closed, ...more, ...rest, ...last]) expect(unconditional).not.toContain(name);
  expect(new Set(unconditional).size).toBe(unconditional.length);
});

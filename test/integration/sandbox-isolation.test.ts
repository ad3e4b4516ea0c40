import { beforeAll, describe, expect, it } from "vitest";
import { DEBIAN_IMAGE, ensureSandboxImages, hasDocker } from "../support/docker.ts";
import { EXEC_LIMITS, openTestBackend, output } from "../support/sandbox.ts";

/** Asks the kernel for things, and prints each answer by name. */
const PROBE = `
import errno, os, socket, ctypes
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, action):
    try:
        action()
        print(name, "ALLOWED")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
def call(number, *args):
    if libc.syscall(number, *args) == -1:
        raise OSError(ctypes.get_errno(), "")
for family in ("AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET", "AF_VSOCK"):
    attempt(family, lambda: socket.socket(getattr(socket, family), socket.SOCK_DGRAM))
attempt("AF_UNIX", lambda: socket.socketpair())
machine = os.uname().machine
numbers = {"io_uring_setup": 425, "unshare": 272 if machine == "x86_64" else 97,
           "ptrace": 101 if machine == "x86_64" else 117, "keyctl": 250 if machine == "x86_64" else 219,
           "shmget": 29 if machine == "x86_64" else 194, "mq_open": 240 if machine == "x86_64" else 180,
           "bpf": 321 if machine == "x86_64" else 280, "userfaultfd": 323 if machine == "x86_64" else 282}
for name, number in numbers.items():
    attempt(name, lambda: call(number, 0, 0, 0, 0, 0))
attempt("setuid", lambda: os.setuid(0))
attempt("kill holder", lambda: os.kill(1, 9))
attempt("mknod", lambda: os.mknod("/workspace/null", 0o20666, os.makedev(1, 3)))
for path in ("/tmp/x", "/etc/x", "/dev/shm/x", "/var/tmp/x", "/x"):
    attempt(path, lambda: open(path, "w"))
attempt("holder's environment", lambda: open("/proc/1/environ").read())
`;

describe.skipIf(!hasDocker)("inside a sandbox", () => {
  beforeAll(ensureSandboxImages, 300_000);

  it("there is no network, no privilege, and nothing to write to but the workspace", async () => {
    await using test = await openTestBackend({ image: DEBIAN_IMAGE });
    const sandbox = await test.create();
    const answers = (await output(sandbox, "python3", "-I", "-c", PROBE)).trim().split("\n");
    const allowed = answers.filter((line) => line.endsWith(" ALLOWED"));
    expect(allowed).toEqual(["AF_UNIX ALLOWED"]);
    expect(answers).toEqual(
      expect.arrayContaining([
        "AF_INET EPERM",
        "AF_VSOCK EPERM",
        "io_uring_setup EPERM",
        "ptrace EPERM",
        "/tmp/x EROFS",
        "setuid EPERM",
      ]),
    );
    expect(answers).toHaveLength(23);
  });

  it("only the loopback interface exists, and no route", async () => {
    await using test = await openTestBackend();
    const sandbox = await test.create();
    const interfaces = (await output(sandbox, "cat", "/proc/net/dev")).split("\n").filter((line) => line.includes(":"));
    expect(interfaces.map((line) => line.split(":")[0]?.trim())).toEqual(["lo"]);
    expect((await output(sandbox, "cat", "/proc/net/route")).trim().split("\n")).toHaveLength(1);
    const wget = await sandbox.exec(["wget", "-T", "2", "http://192.0.2.1/"], EXEC_LIMITS);
    expect(wget.exitCode).not.toBe(0);
  });

  it("a command has another user than PID 1, no capability, and a filter on its system calls", async () => {
    await using test = await openTestBackend();
    const sandbox = await test.create();
    const status = await output(sandbox, "cat", "/proc/self/status");
    for (const line of ["Uid:\t65534\t65534\t65534\t65534", "NoNewPrivs:\t1", "Seccomp:\t2"])
      expect(status).toContain(line);
    for (const set of ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"])
      expect(status).toContain(`${set}:\t0000000000000000`);
    expect(await output(sandbox, "cat", "/proc/1/status")).toContain("Uid:\t65533\t65533");
    expect(await output(sandbox, "sh", "-c", "ulimit -c; ulimit -n; hostname")).toBe("0\n256\nsandbox\n");
    expect(await output(sandbox, "find", "/", "-xdev", "-perm", "/6000", "-type", "f")).toBe("");
  });

  it("the machine's environment does not reach a command, nor the commands' own each other", async () => {
    await using test = await openTestBackend();
    const sandbox = await test.create({ environment: { GIVEN: "1" } });
    expect(await output(sandbox, "env")).toBe("GIVEN=1\n");
    expect(await output(sandbox, "sh", "-c", "export LEFT=1; env | grep LEFT")).toBe("LEFT=1\n");
    expect(await output(sandbox, "env")).toBe("GIVEN=1\n");
  });

  it("a fork bomb fills its own process limit and is over with its time", async () => {
    await using test = await openTestBackend();
    const sandbox = await test.create();
    const bomb = "trap '' TERM; bomb() { bomb & bomb & sleep 600; }; bomb 2>/dev/null & while :; do :; done";
    const result = await sandbox.exec(["sh", "-c", bomb], { ...EXEC_LIMITS, timeoutMs: 500 });
    expect(result.outcome).toBe("timed_out");
    expect(result.durationMs).toBeLessThan(15_000);
    expect(await output(sandbox, "echo", "alive")).toBe("alive\n");
  });

  it("a command that takes more memory than it may have is killed for that, and the workspace stays", async () => {
    await using test = await openTestBackend({ memoryBytes: 32 * 1024 * 1024 });
    const sandbox = await test.create();
    await sandbox.writeFiles([{ path: "kept", bytes: Buffer.from("kept") }]);
    const greedy = "x=x; while :; do x=$x$x; done";
    const result = await sandbox.exec(["sh", "-c", greedy], EXEC_LIMITS);
    expect([result.outcome, result.exitCode]).toEqual(["out_of_memory", null]);
    expect(await output(sandbox, "cat", "kept")).toBe("kept");
    expect((await sandbox.exec(["sh", "-c", "exit 137"], EXEC_LIMITS)).outcome).toBe("exited");
  });

  it("a flood of output costs this process no memory", async () => {
    await using test = await openTestBackend();
    const sandbox = await test.create();
    const before = process.memoryUsage().rss;
    const results = [];
    for (let round = 0; round < 5; round += 1) results.push(await sandbox.exec(["cat", "/dev/zero"], EXEC_LIMITS));
    for (const result of results) {
      expect(result.outcome).toBe("output_limit");
      expect(result.stdout.byteLength).toBe(100_000);
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(100_000_000);
  });

  it("a command may stop or kill itself, or use up what it can, and the next one works", async () => {
    await using test = await openTestBackend();
    const sandbox = await test.create();
    const stopped = await sandbox.exec(["sh", "-c", "kill -STOP $$"], { ...EXEC_LIMITS, timeoutMs: 300 });
    expect(stopped.outcome).toBe("timed_out");
    const killed = await sandbox.exec(["sh", "-c", "kill -KILL $$"], EXEC_LIMITS);
    expect([killed.outcome, killed.exitCode]).toEqual(["exited", 137]);
    const everything = await sandbox.exec(
      ["sh", "-c", "kill -KILL -1; i=0; while : > f$i; do i=$((i+1)); done"],
      EXEC_LIMITS,
    );
    expect(everything.outcome).toBe("exited");
    expect((await sandbox.list()).length).toBeGreaterThan(100);
    await expect(sandbox.writeFiles([{ path: "full", bytes: Buffer.from("x") }])).rejects.toMatchObject({
      code: "workspace_full",
    });
    expect(await output(sandbox, "sh", "-c", "rm f*; echo ok")).toBe("ok\n");
    await sandbox.writeFiles([{ path: "fits", bytes: Buffer.from("x") }]);
  });

  it("an environment may be large, and one that no process can be given is refused before anything runs", async () => {
    await using test = await openTestBackend();
    const variables = (count: number): Record<string, string> =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`V${index}`, "x".repeat(32_768)]));
    const large = await test.create({ environment: variables(57) });
    const counted = await large.exec(["sh", "-c", "env | grep -c ^V"], EXEC_LIMITS);
    expect(Buffer.from(counted.stdout).toString().trim()).toBe("57");
    const tooLarge = await test.create({ environment: variables(64) });
    await expect(tooLarge.exec(["echo", "hi"], EXEC_LIMITS)).rejects.toMatchObject({ code: "invalid_arguments" });
    expect(await tooLarge.list()).toEqual([]);
  });
});

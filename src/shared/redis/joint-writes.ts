import type { Redis } from "ioredis";

/**
 * Lets the commands that are given within one turn of the event loop leave in one write: many runs share a connection,
 * and a system call for each command costs more than the command. Nothing waits longer than the turn.
 */
export function joinWrites(redis: Redis): void {
  const send = redis.sendCommand.bind(redis);
  let held: Redis["stream"] | undefined;
  const release = (): void => {
    held?.uncork();
    held = undefined;
  };
  redis.sendCommand = (command, stream) => {
    const socket = redis.status === "ready" ? redis.stream : undefined;
    if (held === undefined && socket !== undefined) {
      held = socket;
      socket.cork();
      process.nextTick(release);
    }
    return send(command, stream);
  };
}

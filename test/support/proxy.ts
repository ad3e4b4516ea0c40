import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/** A TCP proxy on loopback that a test can make lose what it likes. */
export interface Proxy extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** Connections that are open now. */
  readonly connections: number;
  /**
   * Lets the next request of any connection that contains `text` reach the server, throws its reply away
   * and cuts the connection. Resolves when that has happened.
   */
  dropReplyTo(text: string): Promise<void>;
  /** Cuts every connection. */
  cut(): void;
}

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  /** The next reply is thrown away, then the connection is cut. */
  doomed: boolean;
}

/** Starts a proxy in front of a port on loopback. */
export async function startProxy(targetPort: number): Promise<Proxy> {
  const pairs = new Set<Pair>();
  let trap: { readonly text: string; readonly sprung: () => void } | undefined;

  function onRequest(pair: Pair, chunk: Buffer): void {
    if (trap !== undefined && chunk.includes(trap.text)) pair.doomed = true;
    pair.server.write(chunk);
  }

  function onReply(pair: Pair, chunk: Buffer): void {
    if (!pair.doomed) {
      pair.client.write(chunk);
      return;
    }
    const sprung = trap?.sprung;
    trap = undefined;
    end(pair);
    sprung?.();
  }

  function end(pair: Pair): void {
    pairs.delete(pair);
    pair.client.destroy();
    pair.server.destroy();
  }

  const listener = createServer((client) => {
    const pair: Pair = { client, server: connect(targetPort, "127.0.0.1"), doomed: false };
    pairs.add(pair);
    client.on("data", (chunk) => onRequest(pair, Buffer.from(chunk)));
    pair.server.on("data", (chunk) => onReply(pair, Buffer.from(chunk)));
    for (const socket of [client, pair.server]) {
      socket.on("error", () => end(pair));
      socket.on("close", () => end(pair));
    }
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const address = listener.address();
  if (address === null || typeof address === "string") throw new Error("no port was given");

  function cut(): void {
    for (const pair of pairs) end(pair);
  }

  return {
    url: `redis://127.0.0.1:${address.port}`,
    port: address.port,
    get connections() {
      return pairs.size;
    },
    dropReplyTo(text) {
      const { promise, resolve } = Promise.withResolvers<void>();
      trap = { text, sprung: resolve };
      return promise;
    },
    cut,
    async [Symbol.asyncDispose]() {
      listener.close();
      cut();
      await once(listener, "close").catch(() => undefined);
    },
  };
}

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { RunError } from "../errors.ts";
import type { Metrics } from "./metrics.ts";

/** Whether this process should be given work, and if not, why. */
export interface Readiness {
  readonly ready: boolean;
  /** Short words such as `redis_unavailable`; empty when ready. */
  readonly reasons: readonly string[];
}

export interface HealthServerOptions {
  /** 0: a free one. */
  readonly port: number;
  /** Address to listen on. Default 127.0.0.1: whoever wants more says so. */
  readonly host?: string;
  readonly metrics: Pick<Metrics, "expose">;
  /** Asked at each `/readyz`. What it throws counts as not ready. */
  readonly ready: () => Readiness;
}

export interface HealthServer extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** Ends open connections too. Safe to call again. */
  close(): Promise<void>;
}

const DEFAULT_HOST = "127.0.0.1";
const REQUEST_TIMEOUT_MS = 5_000;
const MAX_CONNECTIONS = 64;
const MAX_HEADER_BYTES = 8_192;

interface Answer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

/**
 * Serves `/metrics`, `/healthz` (the process answers) and `/readyz` (200, or 503 with the reasons as
 * JSON). GET and HEAD only, small requests only, nothing else.
 *
 * @throws {RunError} `invalid_configuration` where the address cannot be listened on.
 */
export async function startHealthServer(options: HealthServerOptions): Promise<HealthServer> {
  const host = options.host ?? DEFAULT_HOST;
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionsCheckingInterval: 1_000,
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.keepAliveTimeout = REQUEST_TIMEOUT_MS;
  server.on("request", (request, response) => {
    void answer(request, options).then((reply) => send(request, response, reply));
  });
  await listen(server, { host, port: options.port });
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : options.port;
  const close = (): Promise<void> => closeServer(server);
  return { host, port, close, [Symbol.asyncDispose]: close };
}

/** Never rejects. */
async function answer(request: IncomingMessage, options: HealthServerOptions): Promise<Answer> {
  if (request.method !== "GET" && request.method !== "HEAD") return text(405, "method not allowed");
  try {
    switch ((request.url ?? "/").split("?", 1)[0]) {
      case "/metrics": {
        const { contentType, text: body } = await options.metrics.expose();
        return { status: 200, contentType, body };
      }
      case "/healthz":
        return json(200, { status: "ok" });
      case "/readyz":
        return readiness(options.ready);
      default:
        return text(404, "not found");
    }
  } catch {
    // Whatever failed may hold more than a scraper should see.
    return text(500, "internal error");
  }
}

function readiness(read: () => Readiness): Answer {
  let state: Readiness;
  try {
    state = read();
  } catch {
    state = { ready: false, reasons: ["internal"] };
  }
  return json(state.ready ? 200 : 503, { ready: state.ready, reasons: state.reasons });
}

function text(status: number, body: string): Answer {
  return { status, contentType: "text/plain; charset=utf-8", body: `${body}\n` };
}

function json(status: number, value: object): Answer {
  return { status, contentType: "application/json; charset=utf-8", body: `${JSON.stringify(value)}\n` };
}

function send(request: IncomingMessage, response: ServerResponse, reply: Answer): void {
  response.writeHead(reply.status, {
    "content-type": reply.contentType,
    "content-length": Buffer.byteLength(reply.body),
    "cache-control": "no-store",
    ...(reply.status === 405 ? { allow: "GET, HEAD", connection: "close" } : {}),
  });
  response.end(request.method === "HEAD" ? undefined : reply.body);
  // A body that nobody asked for is not waited for.
  request.resume();
}

function listen(server: Server, address: { readonly host: string; readonly port: number }): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onError = (error: NodeJS.ErrnoException): void => reject(toListenError(error, address));
  server.once("error", onError);
  try {
    server.listen({ ...address, exclusive: true }, () => {
      server.off("error", onError);
      resolve();
    });
  } catch (error) {
    reject(
      new RunError("invalid_configuration", {
        message: "The metrics port must be a whole number from 0 to 65535.",
        cause: error,
      }),
    );
  }
  return promise;
}

function toListenError(
  error: NodeJS.ErrnoException,
  address: { readonly host: string; readonly port: number },
): RunError {
  const why = error.code === "EADDRINUSE" ? "another process listens there" : (error.code ?? "it was refused");
  return new RunError("invalid_configuration", {
    message: `The metrics port ${address.port} on ${address.host} cannot be used: ${why}. Choose another, or 0 for a free one.`,
    details: { port: address.port, host: address.host },
    cause: error,
  });
}

function closeServer(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  server.closeAllConnections();
  return promise;
}

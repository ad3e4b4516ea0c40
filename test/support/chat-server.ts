import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, type Socket } from "node:net";

/** What the server does with one request. All by the test's order, so that no test has to wait for time. */
export type ChatScript = (exchange: ChatExchange) => void | Promise<void>;

/** One request, and the hands to answer it. */
export class ChatExchange {
  readonly request: IncomingMessage;
  readonly body: Readonly<Record<string, unknown>>;
  /** Settles when the connection is closed, by whichever side. */
  readonly closed: Promise<void>;
  readonly #response: ServerResponse;

  constructor(request: IncomingMessage, response: ServerResponse, body: Readonly<Record<string, unknown>>) {
    this.request = request;
    this.body = body;
    this.#response = response;
    this.closed = new Promise((resolve) => response.once("close", () => resolve()));
  }

  /** Sends the headers now. */
  head(status = 200, headers: Readonly<Record<string, string>> = { "content-type": "text/event-stream" }): this {
    this.#response.writeHead(status, headers);
    this.#response.flushHeaders();
    return this;
  }

  /** Sends bytes as they are; resolves when the system has taken them. */
  write(bytes: string | Uint8Array): Promise<void> {
    if (!this.#response.headersSent) this.head();
    return new Promise((resolve) => this.#response.write(bytes, () => resolve()));
  }

  /** Sends each value as one event in one write, in the form that servers use. */
  async events(...values: readonly unknown[]): Promise<void> {
    for (const value of values) await this.write(event(value));
  }

  /** Ends the response in order. */
  end(): void {
    if (!this.#response.headersSent) this.head();
    this.#response.end();
  }

  /** Answers without a stream. */
  reply(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): void {
    this.#response.writeHead(status, { "content-type": "application/json", ...headers });
    this.#response.end(typeof body === "string" ? body : JSON.stringify(body));
  }

  /** Resets the connection: the client sees it break. */
  reset(): void {
    this.request.socket.resetAndDestroy();
  }
}

/** A Chat Completions server on loopback that does what the test says, request by request. */
export class ChatServer implements AsyncDisposable {
  readonly exchanges: ChatExchange[] = [];
  readonly sockets = new Set<Socket>();
  /** Connections that were ever opened. */
  connections = 0;
  readonly #server: Server;
  readonly #scripts: ChatScript[];
  readonly #failures: unknown[] = [];
  #waiting: { readonly count: number; readonly resolve: () => void }[] = [];

  private constructor(scripts: readonly ChatScript[]) {
    this.#scripts = [...scripts];
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch((error: unknown) => this.#failures.push(error));
    });
    this.#server.on("connection", (socket: Socket) => {
      this.connections++;
      this.sockets.add(socket);
      socket.once("close", () => this.sockets.delete(socket));
    });
  }

  /** @param scripts One for each request to come; the last serves all further ones. */
  static async start(...scripts: readonly ChatScript[]): Promise<ChatServer> {
    const server = new ChatServer(scripts);
    await new Promise<void>((resolve) => server.#server.listen(0, "127.0.0.1", resolve));
    return server;
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  /** The body of the request with this number, from 0. */
  body(index: number): Readonly<Record<string, unknown>> {
    const exchange = this.exchanges[index];
    if (exchange === undefined) throw new Error(`no request ${index}`);
    return exchange.body;
  }

  /** Resolves when so many requests have come. */
  async requests(count: number): Promise<ChatExchange> {
    if (this.exchanges.length < count) {
      await new Promise<void>((resolve) => this.#waiting.push({ count, resolve }));
    }
    const exchange = this.exchanges[count - 1];
    if (exchange === undefined) throw new Error("unreachable");
    return exchange;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
    if (this.#failures.length > 0) throw new AggregateError(this.#failures, "a script of the chat server failed");
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on("error", () => undefined);
    const chunks: Buffer[] = [];
    for await (const part of request) chunks.push(part as Buffer);
    const text = Buffer.concat(chunks).toString("utf8");
    const exchange = new ChatExchange(
      request,
      response,
      text === "" ? {} : (JSON.parse(text) as Record<string, unknown>),
    );
    this.exchanges.push(exchange);
    this.#waiting = this.#waiting.filter(({ count, resolve }) => {
      if (this.exchanges.length < count) return true;
      resolve();
      return false;
    });
    const script = this.#scripts[Math.min(this.exchanges.length, this.#scripts.length) - 1];
    if (script === undefined) throw new Error("the chat server has no script");
    await script(exchange);
  }
}

/** One server-sent event. Text stands as it is, anything else as JSON. */
export function event(value: unknown): string {
  return `data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`;
}

/** A chunk with one choice. */
export function chunk(
  delta: Readonly<Record<string, unknown>>,
  finishReason: string | null = null,
): Record<string, unknown> {
  return {
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1,
    model: "fake",
    choices: [{ index: 0, delta, finish_reason: finishReason }],
  };
}

/** The chunk that carries the usage. */
export function usageChunk(
  usage: unknown = { prompt_tokens: 20, completion_tokens: 5, total_tokens: 25 },
): Record<string, unknown> {
  return { ...chunk({}), choices: [], usage };
}

/** A fragment of a tool call. */
export function fragment(fields: {
  index?: number;
  id?: string;
  name?: string;
  arguments?: unknown;
}): Record<string, unknown> {
  const { index, id, name, arguments: text } = fields;
  return {
    ...(index === undefined ? {} : { index }),
    ...(id === undefined ? {} : { id, type: "function" }),
    function: { ...(name === undefined ? {} : { name }), ...(text === undefined ? {} : { arguments: text }) },
  };
}

/** Answers as a whole: pieces of text, then usage and the end. */
export function answer(...pieces: readonly string[]): ChatScript {
  return async (exchange) => {
    await exchange.events(...pieces.map((content) => chunk({ content })), chunk({}, "stop"), usageChunk(), "[DONE]");
    exchange.end();
  };
}

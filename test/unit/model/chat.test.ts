import { describe, expect, test } from "vitest";
import { createChatModel, type ChatModelOptions } from "../../../src/worker/model/chat.ts";
import type { Model } from "../../../src/worker/model/model.ts";
import { answer, ChatServer, chunk, event, usageChunk, type ChatScript } from "../../support/chat-server.ts";
import { HandClock } from "../../support/hand-clock.ts";
import { answeredTimes, callModel, codeAndReason, failedCall, modelRequest } from "../../support/model-calls.ts";

const KEY = "canary_1234567890";

function chat(server: ChatServer, options: Partial<ChatModelOptions> = {}): Model {
  return createChatModel({ baseUrl: server.baseUrl, apiKey: () => KEY, ...options });
}

const fails =
  (
    status: number,
    body: unknown = { error: { message: "no" } },
    headers: Record<string, string> = { "retry-after-ms": "1" },
  ): ChatScript =>
  (exchange) =>
    exchange.reply(status, body, headers);

/** Leaves the request without an answer. */
const ignores: ChatScript = () => undefined;

describe("a request to the provider", () => {
  test("holds messages, tools and bound in the provider's form, and nothing about the run", async () => {
    await using server = await ChatServer.start(answer("ok"));
    await callModel(
      chat(server),
      modelRequest({
        messages: [
          { role: "system", text: "Help." },
          { role: "user", text: "Look." },
          {
            role: "assistant",
            text: "",
            toolCalls: [
              { callId: "t1c0", name: "look", arguments: '{"a":1}' },
              { callId: "t1c1", name: "look", arguments: "{broken" },
            ],
          },
          { role: "tool", callId: "t1c0", text: "seen" },
          { role: "tool", callId: "t1c1", text: "bad arguments" },
          { role: "assistant", text: "So.", toolCalls: [] },
        ],
        tools: [{ name: "look", description: "Looks.", inputSchema: { type: "object", properties: {} } }],
        maxOutputTokens: 100,
        responseSchema: {
          type: "object",
          properties: { a: { type: "string" } },
          required: ["a"],
          additionalProperties: false,
        },
        run: { runId: "run-canary", query: "query-canary", skill: "skill-canary" },
      }),
    );
    expect(server.body(0)).toEqual({
      model: "fake-model",
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 100,
      messages: [
        { role: "system", content: "Help." },
        { role: "user", content: "Look." },
        {
          role: "assistant",
          content: null,
          tool_calls: [
            { id: "t1c0", type: "function", function: { name: "look", arguments: '{"a":1}' } },
            { id: "t1c1", type: "function", function: { name: "look", arguments: '{"invalid":"{broken"}' } },
          ],
        },
        { role: "tool", tool_call_id: "t1c0", content: "seen" },
        { role: "tool", tool_call_id: "t1c1", content: "bad arguments" },
        { role: "assistant", content: "So." },
      ],
      tools: [
        {
          type: "function",
          function: { name: "look", description: "Looks.", parameters: { type: "object", properties: {} } },
        },
      ],
      response_format: {
        type: "json_schema",
        json_schema: {
          name: "answer",
          strict: true,
          schema: {
            type: "object",
            properties: { a: { type: "string" } },
            required: ["a"],
            additionalProperties: false,
          },
        },
      },
    });
    expect(JSON.stringify(server.exchanges[0]?.request.headers)).not.toContain("run-canary");
  });

  test("says nothing of a schema that no provider enforces, and names the bound as it is told", async () => {
    await using server = await ChatServer.start(answer("ok"));
    const request = modelRequest({ responseSchema: { type: "object" }, maxOutputTokens: 5.9 });
    await callModel(chat(server, { maxTokensField: "max_completion_tokens" }), request);
    expect(server.body(0)).not.toHaveProperty("response_format");
    expect(server.body(0)).toMatchObject({ max_completion_tokens: 5 });
    expect(server.body(0)).not.toHaveProperty("max_tokens");
  });

  test("carries the key, or no authorization at all", async () => {
    await using server = await ChatServer.start(answer("ok"));
    await callModel(chat(server));
    await callModel(createChatModel({ baseUrl: server.baseUrl }));
    expect(server.exchanges.map((exchange) => exchange.request.headers.authorization)).toEqual([
      `Bearer ${KEY}`,
      undefined,
    ]);
  });

  test("uses the same connection as the one before, also where that response ended after its answer", async () => {
    await using server = await ChatServer.start((exchange) =>
      exchange.events(chunk({ content: "a" }, "stop"), usageChunk(), "[DONE]"),
    );
    const model = chat(server);
    for (let turn = 1; turn <= 3; turn++) {
      await callModel(model);
      const exchange = await server.requests(turn);
      exchange.end();
      await exchange.closed;
      for (let turns = 0; turns < 3; turns++) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(server.connections).toBe(1);
  });

  test("closes a connection that does not end within a second after its answer", async () => {
    await using server = await ChatServer.start((exchange) =>
      exchange.events(chunk({ content: "a" }, "stop"), "[DONE]"),
    );
    const clock = new HandClock();
    await callModel(chat(server, { clock }));
    expect(clock.pending).toEqual([1000]);
    clock.advance(1000);
    await (
      await server.requests(1)
    ).closed;
    await new Promise((resolve) => setImmediate(resolve));
    expect(clock.pending).toEqual([]);
  });

  test("is not sent without a key; the error names what is missing, and the next call asks again", async () => {
    await using server = await ChatServer.start(answer("ok"));
    const keys: string[] = [];
    const model = chat(server, {
      apiKey: () => {
        const [key] = keys;
        if (key === undefined) throw new TypeError("no key yet");
        return key;
      },
    });
    await expect(callModel(model)).rejects.toThrow("no key yet");
    keys.push(KEY);
    expect((await callModel(model)).completion.text).toBe("ok");
    expect(server.exchanges).toHaveLength(1);
  });
});

describe("before the answer has begun, a request is sent again", () => {
  test.each([408, 409, 429, 500, 503])("after status %i", async (status) => {
    await using server = await ChatServer.start(fails(status), fails(status), answer("ok"));
    expect((await callModel(chat(server))).completion.text).toBe("ok");
    expect(server.exchanges).toHaveLength(3);
  });

  test("after a connection that broke before and after the headers", async () => {
    await using server = await ChatServer.start(
      (exchange) => exchange.reset(),
      async (exchange) => {
        await exchange.write(": hello\n\n");
        exchange.reset();
      },
      answer("ok"),
    );
    const noDelay = (): number => 4; // takes four quarters of it away
    expect((await callModel(chat(server, { random: noDelay }))).completion.text).toBe("ok");
    expect(server.exchanges).toHaveLength(3);
  });

  test("twice at most", async () => {
    await using server = await ChatServer.start(fails(503, { error: { message: "busy", code: "overloaded" } }));
    const error = await failedCall(chat(server));
    expect(error.details).toEqual({
      reason: "server_error",
      providerCode: "overloaded",
      providerMessage: "busy",
      retryAfterMs: 1,
    });
    expect(server.exchanges).toHaveLength(3);
  });

  test("not where the server asks for a longer wait than is allowed: the error says how long", async () => {
    await using server = await ChatServer.start(fails(429, {}, { "retry-after": "120" }));
    const error = await failedCall(chat(server));
    expect(error.toBody()).toMatchObject({
      code: "model_unavailable",
      retryable: true,
      details: { reason: "rate_limited", retryAfterMs: 120_000 },
    });
    expect(server.exchanges).toHaveLength(1);
  });

  test("not where the total deadline would pass first", async () => {
    await using server = await ChatServer.start(fails(429, {}, { "retry-after": "20" }));
    const error = await failedCall(chat(server, { totalTimeoutMs: 10_000 }));
    expect(codeAndReason(error)).toEqual(["model_unavailable", "rate_limited"]);
  });

  test("not before the time that a Retry-After gives as a date", async () => {
    const date = new Date(Date.now() + 90_000).toUTCString();
    await using server = await ChatServer.start(fails(429, {}, { "retry-after": date }));
    const error = await failedCall(chat(server));
    expect(error.details?.["retryAfterMs"]).toBeGreaterThan(80_000);
  });

  test("not where the server forbids it, nor for a quota that is used up", async () => {
    await using server = await ChatServer.start(
      fails(500, {}, { "x-should-retry": "false" }),
      fails(429, { error: { message: "pay", code: "insufficient_quota" } }),
    );
    await failedCall(chat(server));
    expect((await failedCall(chat(server))).details).toMatchObject({ reason: "rate_limited", permanent: true });
    expect(server.exchanges).toHaveLength(2);
  });

  test("and an abort ends the wait between", async () => {
    await using server = await ChatServer.start(fails(429, {}, { "retry-after": "30" }));
    const aborting = new AbortController();
    const call = callModel(chat(server), modelRequest(), aborting.signal);
    const { closed } = await server.requests(1);
    await Promise.race([closed, new Promise((resolve) => setImmediate(resolve))]);
    const reason = new Error("enough");
    aborting.abort(reason);
    await expect(call).rejects.toBe(reason);
  });
});

describe("an error of the provider", () => {
  test.each([
    [401, { error: { message: "bad key", code: "invalid_api_key" } }, "model_unavailable", "http_401"],
    [403, {}, "model_unavailable", "http_403"],
    [404, { error: { message: "no such model", code: "model_not_found" } }, "unknown_model", "http_404"],
    [404, { error: { message: "no such model", type: "NotFoundError" } }, "unknown_model", "http_404"],
    [404, "<html>nothing here</html>", "model_unavailable", "http_404"],
    [400, { error: { message: "too long", code: "context_length_exceeded" } }, "model_unavailable", "http_400"],
    [400, { error: { message: "no", code: "content_policy_violation" } }, "model_refused", "content_policy"],
    [400, { error: { message: "no", code: "content_filter" } }, "model_refused", "content_policy"],
    [302, {}, "model_unavailable", "http_302"],
  ])("with status %i and %o is %s, %s, and final", async (status, body, code, reason) => {
    await using server = await ChatServer.start(fails(status, body, { location: "http://127.0.0.1:1/" }));
    const error = await failedCall(chat(server));
    expect(codeAndReason(error)).toEqual([code, reason]);
    if (code === "model_unavailable") expect(error.details).toMatchObject({ permanent: true });
    expect(server.exchanges).toHaveLength(1);
  });

  test("is shown without the key, other tokens and control characters, and not at length", async () => {
    const message = `Key ${KEY} or Bearer abc.def or sk-proj-abc123 or api_key=xyz is\u0000\u001b[31m wrong ${"x".repeat(5000)}`;
    await using server = await ChatServer.start(fails(401, { error: { message, code: `c-${KEY}` } }));
    const error = await failedCall(chat(server));
    const shown = JSON.stringify(error.toBody());
    for (const secret of [KEY, "abc.def", "sk-proj", "xyz", "\\u0000", "\\u001b"]) expect(shown).not.toContain(secret);
    expect(String(error.details?.["providerMessage"])).toHaveLength(300);
    expect(error.details?.["providerMessage"]).toMatch(/^Key \[removed\] or Bearer \[removed\]/u);
  });

  test("may have a body without end", async () => {
    await using server = await ChatServer.start(async (exchange) => {
      exchange.head(400, { "content-type": "text/plain" });
      for (let sent = 0; sent < 20; sent++) await Promise.race([exchange.write("x".repeat(10_000)), exchange.closed]);
    });
    expect(codeAndReason(await failedCall(chat(server)))).toEqual(["model_unavailable", "http_400"]);
  });

  test("is a lost connection where nobody listens", async () => {
    const server = await ChatServer.start(ignores);
    const { baseUrl } = server;
    await server[Symbol.asyncDispose]();
    const error = await failedCall(createChatModel({ baseUrl, maxRetries: 0 }));
    expect(codeAndReason(error)).toEqual(["model_unavailable", "connection_lost"]);
    expect(JSON.stringify(error.toBody())).not.toContain("127.0.0.1");
  });
});

describe("a deadline", () => {
  test("passes for a server that sends no headers, and the connection is closed", async () => {
    await using server = await ChatServer.start(ignores);
    const error = await failedCall(chat(server, { connectTimeoutMs: 30 }));
    expect(error.details).toEqual({ reason: "connect_timeout", afterMs: 30 });
    await (
      await server.requests(1)
    ).closed;
    expect(server.exchanges).toHaveLength(1);
  });

  test("passes for a stream that stalls; what has probably been used is in the error", async () => {
    await using server = await ChatServer.start((exchange) => exchange.events(chunk({ content: "1234567" })));
    const error = await failedCall(chat(server, { idleTimeoutMs: 30 }));
    expect(error.details).toMatchObject({ reason: "idle_timeout", usage: { outputTokens: 2, estimated: true } });
    await (
      await server.requests(1)
    ).closed;
  });

  test("passes for a stream whose bytes are further apart than the longest silence", async () => {
    await using server = await ChatServer.start(drip(60));
    const error = await failedCall(chat(server, { idleTimeoutMs: 20 }));
    expect(codeAndReason(error)).toEqual(["model_unavailable", "idle_timeout"]);
  });

  test("passes for a stream that drips for ever", async () => {
    await using server = await ChatServer.start(drip(5));
    const error = await failedCall(chat(server, { idleTimeoutMs: 5000, totalTimeoutMs: 80 }));
    expect(codeAndReason(error)).toEqual(["model_unavailable", "total_timeout"]);
    await (
      await server.requests(1)
    ).closed;
  });

  test("does not pass for a slow reader, and a call that is over leaves no timer but that of its connection", async () => {
    const goOn = Promise.withResolvers<void>();
    await using server = await ChatServer.start(async (exchange) => {
      await exchange.events(chunk({ content: "a" }));
      await goOn.promise;
      await answer("b")(exchange);
    });
    const clock = new HandClock();
    const stream = chat(server, { clock }).stream(modelRequest(), { signal: new AbortController().signal });
    const iterator = stream[Symbol.asyncIterator]();
    expect((await iterator.next()).value).toEqual({ kind: "delta", text: "a" });
    clock.advance(500_000);
    goOn.resolve();
    expect((await iterator.next()).value).toEqual({ kind: "delta", text: "b" });
    expect((await iterator.next()).value).toMatchObject({ kind: "completed", completion: { text: "ab" } });
    expect(clock.pending.filter((ms) => ms > 1000)).toEqual([]);
  });
});

describe("a stream that is cut", () => {
  test.each([
    ["after its first chunk", [chunk({ content: "half" })]],
    [
      "within a tool call",
      [chunk({ tool_calls: [{ index: 0, id: "a", function: { name: "look", arguments: '{"a' } }] })],
    ],
  ])("%s is a lost connection, and is not sent again", async (_name, values) => {
    await using server = await ChatServer.start(async (exchange) => {
      await exchange.events(...values);
      exchange.reset();
    });
    const error = await failedCall(chat(server));
    expect(error.details).toMatchObject({ reason: "connection_lost", usage: { estimated: true } });
    expect(server.exchanges).toHaveLength(1);
  });

  test("within an event is a lost connection", async () => {
    await using server = await ChatServer.start(async (exchange) => {
      await exchange.events(chunk({ content: "a" }));
      await exchange.write(event(chunk({ content: "lost" })).slice(0, 30));
      exchange.reset();
    });
    expect(codeAndReason(await failedCall(chat(server)))).toEqual(["model_unavailable", "connection_lost"]);
  });

  test("in order, but without a finish reason, breaks the protocol", async () => {
    await using server = await ChatServer.start(async (exchange) => {
      await exchange.events(chunk({ content: "half" }));
      exchange.end();
    });
    const error = await failedCall(chat(server));
    expect(codeAndReason(error)).toEqual(["model_protocol", "no_finish_reason"]);
    expect(error.details).toMatchObject({ usage: { estimated: true } });
  });

  test("after its finish reason is whole; its usage is estimated", async () => {
    await using server = await ChatServer.start(async (exchange) => {
      await exchange.events(chunk({ content: "all" }, "stop"));
      exchange.reset();
    });
    const { completion } = await callModel(chat(server));
    expect(completion).toMatchObject({ text: "all", usage: { estimated: true } });
  });
});

describe("an abort", () => {
  test("before the headers closes the connection at once", async () => {
    await using server = await ChatServer.start(ignores);
    const aborting = new AbortController();
    const call = callModel(chat(server), modelRequest(), aborting.signal);
    const { closed } = await server.requests(1);
    const reason = { kind: "cancelled" };
    aborting.abort(reason);
    await expect(call).rejects.toBe(reason);
    await closed;
    expect(server.exchanges).toHaveLength(1);
  });

  test("in mid-stream closes the connection at once, and nothing looks whole", async () => {
    await using server = await ChatServer.start((exchange) => exchange.events(chunk({ content: "a" }, "stop")));
    const aborting = new AbortController();
    const iterator = chat(server).stream(modelRequest(), { signal: aborting.signal })[Symbol.asyncIterator]();
    expect((await iterator.next()).value).toEqual({ kind: "delta", text: "a" });
    const next = iterator.next();
    const reason = new Error("enough");
    aborting.abort(reason);
    await expect(next).rejects.toBe(reason);
    await (
      await server.requests(1)
    ).closed;
  });

  test("leaves no listener on the caller's signal, nor does a whole call", async () => {
    await using server = await ChatServer.start(answer("ok"));
    const { signal } = new AbortController();
    const added: string[] = [];
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...given: Parameters<typeof add>) => (added.push(given[0]), add(...given));
    signal.removeEventListener = (...given: Parameters<typeof remove>) => (added.splice(0, 1), remove(...given));
    await callModel(chat(server), modelRequest({ messages: answeredTimes(1) }), signal);
    expect(added).toEqual([]);
  });

  test("and a reader that leaves early closes the connection", async () => {
    await using server = await ChatServer.start((exchange) => exchange.events(chunk({ content: "a" })));
    for await (const item of chat(server).stream(modelRequest(), { signal: new AbortController().signal })) {
      expect(item.kind).toBe("delta");
      break;
    }
    await (
      await server.requests(1)
    ).closed;
  });
});

/** Sends a comment of one byte at a time, for ever, so many milliseconds apart. */
function drip(everyMs: number): ChatScript {
  return async (exchange) => {
    await exchange.write(":");
    const timer = setInterval(() => void exchange.write("x"), everyMs);
    await exchange.closed;
    clearInterval(timer);
  };
}

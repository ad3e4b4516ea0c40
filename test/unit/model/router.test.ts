import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MODELS_SCHEMA, type ModelsConfig } from "../../../src/shared/config/model-routes.ts";
import { RunError } from "../../../src/shared/errors.ts";
import type { ModelRoute } from "../../../src/worker/model/model.ts";
import { createModelRouter, routesFromConfig, type RouteResources } from "../../../src/worker/model/router.ts";
import { ScriptedModel } from "../../../src/worker/model/scripted.ts";
import { answer, ChatServer } from "../../support/chat-server.ts";
import { callModel, failedCall } from "../../support/model-calls.ts";

const adapter = new ScriptedModel([]);
const fast: ModelRoute = { id: "fast", model: "small-1", adapter };
const deep: ModelRoute = { id: "deep", model: "large-1", adapter };

describe("the router", () => {
  const router = createModelRouter({ default: "fast", routes: [fast, deep] });

  test("gives the default route where none is named, and a named one with its model", () => {
    expect(router.resolve(undefined)).toEqual({ route: fast, model: "small-1" });
    expect(router.resolve("deep")).toEqual({ route: deep, model: "large-1" });
  });

  test("takes the model after the first colon as it is", () => {
    expect(router.resolve("deep:vendor/large:free")).toEqual({ route: deep, model: "vendor/large:free" });
  });

  test.each(["slow", "slow:small-1", "fast:", "", ":small-1"])("refuses %j and lists the routes it knows", (name) => {
    const error = errorOf(() => router.resolve(name));
    expect(error).toMatchObject({ code: "unknown_model", details: { routes: ["deep", "fast"] } });
    expect(error.message).toContain("Known routes: deep, fast.");
  });

  test("is not built with a default that does not exist, or with two routes of one id", () => {
    expect(errorOf(() => createModelRouter({ default: "x", routes: [fast] })).message).toContain(
      "The default model route x",
    );
    expect(errorOf(() => createModelRouter({ default: "fast", routes: [fast, fast] })).code).toBe(
      "invalid_configuration",
    );
  });
});

describe("routes of a configuration", () => {
  let directory = "";
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "routes-"));
    writeFileSync(join(directory, "script.yaml"), "- steps: [{ text: scripted answer }]\n");
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  const build = (models: ModelsConfig, more: Partial<RouteResources> = {}): ReturnType<typeof createModelRouter> => {
    expect(check(models)).toBe(true);
    return createModelRouter(
      routesFromConfig(models, { readSecret: () => undefined, baseDirectory: directory, ...more }),
    );
  };

  test("a scripted one reads its script from beside the configuration", async () => {
    const { route } = build({ default: "local", local: { api: "scripted", script: "script.yaml" } }).resolve(undefined);
    expect((await callModel(route.adapter)).completion.text).toBe("scripted answer");
  });

  test("a chat one has bounds, price and key from where they are named", async () => {
    await using server = await ChatServer.start(answer("from the server"));
    const pricePerMillion = { input: 1, cachedInput: 0.1, output: 4 };
    const router = build(
      {
        default: "fast",
        fast: {
          api: "chat",
          model: "m-1",
          baseUrl: server.baseUrl,
          apiKeyEnv: "MY_KEY",
          maxOutputTokens: 9,
          contextTokens: 99,
          pricePerMillion,
        },
      },
      { readSecret: (name) => (name === "MY_KEY" ? " the-key\n" : undefined) },
    );
    const { route, model } = router.resolve("fast");
    expect(route).toMatchObject({ id: "fast", model: "m-1", maxOutputTokens: 9, contextTokens: 99, pricePerMillion });
    expect(model).toBe("m-1");
    expect((await callModel(route.adapter)).completion.text).toBe("from the server");
    expect(server.exchanges[0]?.request.headers.authorization).toBe("Bearer the-key");
  });

  test("a chat one that names no server goes to the process's, with OpenAI's key", async () => {
    await using server = await ChatServer.start(answer("ok"));
    const router = build(
      { default: "openai", openai: { api: "chat", model: "m-1" } },
      { openaiBaseUrl: server.baseUrl, readSecret: (name) => (name === "OPENAI_API_KEY" ? "openai-key" : undefined) },
    );
    await callModel(router.resolve(undefined).route.adapter);
    expect(server.exchanges[0]?.request.headers.authorization).toBe("Bearer openai-key");
  });

  test("a missing key stops no other route, and names its variable at the first use", async () => {
    const router = build({
      default: "local",
      local: { api: "scripted", script: "script.yaml" },
      openai: { api: "chat", model: "m-1" },
    });
    expect((await callModel(router.resolve("local").route.adapter)).completion.text).toBe("scripted answer");
    const error = await failedCall(router.resolve("openai").route.adapter);
    expect(error).toMatchObject({
      code: "model_unavailable",
      details: { route: "openai", variable: "OPENAI_API_KEY" },
    });
    expect(error.message).toBe(
      "The model route openai needs a key in OPENAI_API_KEY (or a file named by OPENAI_API_KEY_FILE).",
    );
  });

  test.each([
    ["responses", { api: "responses", model: "m" }, "not_supported", "models/fast/api"],
    ["a chat route without model", { api: "chat" }, "invalid_configuration", "models/fast/model is missing"],
    ["a scripted route without script", { api: "scripted" }, "invalid_configuration", "models/fast/script is missing"],
    [
      "a script for chat",
      { api: "chat", model: "m", script: "a" },
      "invalid_configuration",
      "models/fast/script does not belong",
    ],
    [
      "a key for a script",
      { api: "scripted", script: "a", apiKeyEnv: "A" },
      "invalid_configuration",
      "models/fast/apiKeyEnv does not",
    ],
    [
      "credentials in the URL",
      { api: "chat", model: "m", baseUrl: "http://u:secret@h/" },
      "invalid_configuration",
      "holds credentials",
    ],
    [
      "a URL that is none",
      { api: "chat", model: "m", baseUrl: "http://:::" },
      "invalid_configuration",
      "is not an http(s) URL",
    ],
    [
      "a script that is not there",
      { api: "scripted", script: "none.yaml" },
      "invalid_configuration",
      "none.yaml cannot be read",
    ],
  ] as const)("%s: refused by name", (_name, route, code, message) => {
    const error = errorOf(() => build({ default: "fast", fast: route }));
    expect(error.code).toBe(code);
    expect(error.message).toContain(message);
    expect(error.message).not.toContain("secret");
  });

  test.each([
    ["no default", { fast: { api: "chat" } }],
    ["no route", { default: "fast" }],
    ["an unknown field", { default: "fast", fast: { api: "chat", key: "k" } }],
    ["an unknown api", { default: "fast", fast: { api: "telepathy" } }],
    ["a route id with a colon", { default: "a:b", "a:b": { api: "chat" } }],
    ["half a price", { default: "fast", fast: { api: "chat", pricePerMillion: { input: 1 } } }],
    ["another protocol", { default: "fast", fast: { api: "chat", baseUrl: "file:///etc" } }],
  ])("%s: refused by the schema", (_name, models) => {
    expect(check(models)).toBe(false);
  });
});

const check = new Ajv2020({ strict: true, strictTypes: false }).compile(MODELS_SCHEMA);

function errorOf(run: () => unknown): RunError {
  try {
    run();
  } catch (error) {
    if (error instanceof RunError) return error;
    throw error;
  }
  throw new Error("expected a RunError");
}

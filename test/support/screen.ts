import { Writable } from "node:stream";
import { Output, type Terminal } from "../../src/cli/terminal.ts";

/** What a terminal would show after `bytes`: rows of text, without colours. Knows what Skilldock's own output uses. */
export function renderScreen(bytes: string): string {
  const rows = [""];
  let column = 0;
  // eslint-disable-next-line no-control-regex -- a terminal is made of control characters
  for (const [token] of bytes.matchAll(/\u001b\[[0-9;]*[A-Za-z]|\r|\n|[^\u001b\r\n]/gu)) {
    const row = rows.length - 1;
    if (token === "\n") rows.push("");
    else if (token === "\u001b[2K") rows[row] = "";
    else if (token.startsWith("\u001b") && !token.endsWith("m"))
      throw new Error(`unknown sequence ${JSON.stringify(token)}`);
    if (token === "\n" || token === "\r") column = 0;
    if (token.length > 1 || token === "\n" || token === "\r") continue;
    rows[row] = (rows[row] ?? "").slice(0, column).padEnd(column) + token + (rows[row] ?? "").slice(column + 1);
    column += 1;
  }
  return rows.join("\n");
}

export interface TestTerminal {
  readonly terminal: Terminal;
  /** Everything written to both streams, in order: what one terminal gets. */
  readonly screen: () => string;
  readonly stdout: () => string;
  readonly stderr: () => string;
}

/** A terminal in memory; each stream is a TTY or not. */
export function testTerminal(kind: { readonly stdout: "tty" | "pipe"; readonly stderr: "tty" | "pipe" }): TestTerminal {
  const written: { readonly stream: "stdout" | "stderr"; readonly text: string }[] = [];
  const make = (stream: "stdout" | "stderr"): Output => {
    const sink = new Writable({
      decodeStrings: false,
      write(chunk: string, _encoding, done) {
        written.push({ stream, text: chunk });
        done();
      },
    });
    Object.assign(sink, kind[stream] === "tty" ? { isTTY: true, columns: 80 } : {});
    return new Output(sink as NodeJS.WriteStream, { TERM: "xterm" }, () => undefined); // what Output uses of it is there
  };
  const only = (stream: "stdout" | "stderr"): string =>
    written
      .filter((chunk) => chunk.stream === stream)
      .map(({ text }) => text)
      .join("");
  return {
    terminal: {
      stdin: process.stdin,
      stdout: make("stdout"),
      stderr: make("stderr"),
      environment: {},
      outputClosed: new AbortController().signal,
      exitNow: () => undefined,
    },
    screen: () => renderScreen(written.map(({ text }) => text).join("")),
    stdout: () => only("stdout"),
    stderr: () => only("stderr"),
  };
}

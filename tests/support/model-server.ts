/**
 * A scripted stand-in for the Anthropic Messages API, on loopback only.
 *
 * It lets the real Claude Code run with no network and a fully known "model": every answer comes
 * from a script, every request is kept byte for byte, in memory and on disk, so that a test can
 * say what the model was really told. Verified against Claude Code 2.1.332.
 *
 * A script is chosen by the last `SCRIPT:<name>` in the text of the last user message that has
 * one; the step is the number of assistant messages after that message. A request without a known
 * script, or without tools (Claude Code asks side questions such as a title for the session), gets
 * the text "ok". When the steps run out the last one is repeated.
 *
 * From a shell: bun tests/support/model-server.ts <scripts folder or .ts module> <record folder>
 * prints `{"port":…,"url":…}` on its first line and serves until it is terminated.
 */
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";

/** One block of an answer. Delays are milliseconds; they turn the answer into a slow stream. */
export type ModelBlock = {
  /** Pause before this block starts. */
  readonly delay_ms?: number;
  /** Pause after this block, when it is the last, before the message stops. */
  readonly tail_ms?: number;
} & (
  | { readonly type: "text"; readonly text: string }
  | {
      readonly type: "tool_use";
      readonly name: string;
      readonly input: unknown;
      readonly id?: string;
    }
);

/** A message of the conversation as the client sent it. */
export interface ModelMessage {
  readonly role: string;
  readonly content: string | readonly Readonly<Record<string, unknown>>[];
}

export interface RecordedRequest {
  /** Ordinal of the request from 1, zero-padded to four digits; part of every generated id. */
  readonly id: string;
  /** Milliseconds since the epoch, at arrival. */
  readonly at: number;
  /** The body exactly as received. */
  readonly raw: string;
  readonly body: {
    readonly model?: string;
    readonly stream?: boolean;
    readonly messages: readonly ModelMessage[];
    readonly tools?: readonly unknown[];
    readonly system?: unknown;
  };
  /** Chosen script, "" for none, and the step within it. */
  readonly script: string;
  readonly step: number;
}

/** A fixed answer, or one computed from the request. */
export type ModelStep =
  | readonly ModelBlock[]
  | ((request: RecordedRequest) => readonly ModelBlock[] | Promise<readonly ModelBlock[]>);
export type ModelScripts = Readonly<Record<string, readonly ModelStep[]>>;

export interface ModelServerOptions {
  /** Scripts by name, or a folder of `<name>.json` files that are read at each request. */
  readonly scripts: ModelScripts | string;
  /** Folder for `<id>.json` (request body), `<id>-other.txt` (anything else) and `log.ndjson`. */
  readonly recordDir: string;
  /** 0, the default, lets the system choose. */
  readonly port?: number;
}

export interface ModelServer {
  readonly port: number;
  /** Value for ANTHROPIC_BASE_URL. */
  readonly url: string;
  /** Every `/v1/messages` request so far, oldest first. */
  readonly requests: readonly RecordedRequest[];
  /** First recorded request that satisfies `test`; rejects after `timeoutMs`. */
  waitFor(
    test: (request: RecordedRequest) => boolean,
    timeoutMs?: number,
  ): Promise<RecordedRequest>;
  /** Ends the server and cuts open answers. Idempotent. */
  close(): Promise<void>;
}

/** Plain text of one message: its string, or its text blocks joined by newlines. */
export function messageText(message: ModelMessage): string {
  if (typeof message.content === "string") return message.content;
  return message.content
    .map((part) => (part["type"] === "text" ? String(part["text"]) : ""))
    .join("\n");
}

/** Every tool result in the last message, as text: what the model was last told about its calls. */
export function lastToolResults(
  messages: readonly ModelMessage[],
): { id: string; text: string; isError: boolean }[] {
  for (let i = messages.length - 1; i >= 0; i--) {
    const content = messages[i]?.content;
    if (content === undefined || typeof content === "string") continue;
    const results = content.filter((part) => part["type"] === "tool_result");
    if (results.length === 0) continue;
    return results.map((part) => ({
      id: String(part["tool_use_id"]),
      text: resultText(part["content"]),
      isError: part["is_error"] === true,
    }));
  }
  return [];
}

function resultText(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  const parts = content as readonly Record<string, unknown>[];
  return parts.map((part) => (part["type"] === "text" ? String(part["text"]) : "")).join("");
}

function chooseScript(messages: readonly ModelMessage[]): { script: string; step: number } {
  let step = 0;
  for (let i = messages.length - 1; i >= 0; i--) {
    const message = messages[i];
    if (message === undefined) continue;
    if (message.role === "assistant") {
      step++;
      continue;
    }
    const found = [...messageText(message).matchAll(/SCRIPT:([\w-]+)/g)].at(-1)?.[1];
    if (found !== undefined) return { script: found, step };
  }
  return { script: "", step };
}

/** The answer as server-sent events; `pause` precedes a chunk by that many milliseconds. */
function eventsOf(
  model: string,
  blocks: readonly ModelBlock[],
  messageId: string,
): { pause: number; text: string }[] {
  const event = (name: string, data: object) =>
    `event: ${name}\ndata: ${JSON.stringify({ type: name, ...data })}\n\n`;
  const usage = {
    input_tokens: 10,
    output_tokens: 1,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
  };
  const head = {
    id: messageId,
    type: "message",
    role: "assistant",
    model,
    content: [],
    stop_reason: null,
  };
  const chunks = [
    {
      pause: 0,
      text: event("message_start", { message: { ...head, stop_sequence: null, usage } }),
    },
  ];
  blocks.forEach((block, index) => {
    const start =
      block.type === "text"
        ? { type: "text", text: "" }
        : { type: "tool_use", id: block.id, name: block.name, input: {} };
    const delta =
      block.type === "text"
        ? { type: "text_delta", text: block.text }
        : { type: "input_json_delta", partial_json: JSON.stringify(block.input) };
    chunks.push({
      pause: block.delay_ms ?? 0,
      text:
        event("content_block_start", { index, content_block: start }) +
        event("content_block_delta", { index, delta }) +
        event("content_block_stop", { index }),
    });
  });
  const delta = { stop_reason: stopReason(blocks), stop_sequence: null };
  chunks.push({
    pause: blocks.at(-1)?.tail_ms ?? 0,
    text:
      event("message_delta", { delta, usage: { output_tokens: 20 } }) + event("message_stop", {}),
  });
  return chunks;
}

const stopReason = (blocks: readonly ModelBlock[]) =>
  blocks.some((block) => block.type === "tool_use") ? "tool_use" : "end_turn";

function loadScript(
  scripts: ModelScripts | string,
  name: string,
): readonly ModelStep[] | undefined {
  if (name === "") return undefined;
  if (typeof scripts !== "string") return Object.hasOwn(scripts, name) ? scripts[name] : undefined;
  const file = join(scripts, `${name}.json`);
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as ModelStep[]) : undefined;
}

async function answerBlocks(
  scripts: ModelScripts | string,
  request: RecordedRequest,
): Promise<readonly ModelBlock[]> {
  const steps = request.body.tools?.length ? loadScript(scripts, request.script) : undefined;
  const step = steps?.[Math.min(request.step, steps.length - 1)];
  const blocks =
    typeof step === "function" ? await step(request) : (step ?? [{ type: "text", text: "ok" }]);
  return blocks.map((block, i) =>
    block.type === "tool_use" ? { ...block, id: block.id ?? `toolu_${request.id}_${i}` } : block,
  );
}

export function startModelServer(options: ModelServerOptions): ModelServer {
  const { scripts, recordDir } = options;
  mkdirSync(recordDir, { recursive: true });
  const requests: RecordedRequest[] = [];
  const waiting = new Set<() => void>();
  let count = 0;
  const log = (entry: object) =>
    appendFileSync(
      join(recordDir, "log.ndjson"),
      `${JSON.stringify({ at: Date.now(), ...entry })}\n`,
    );

  async function messages(id: string, raw: string): Promise<Response> {
    const body = JSON.parse(raw) as RecordedRequest["body"];
    const request: RecordedRequest = {
      id,
      at: Date.now(),
      raw,
      body,
      ...chooseScript(body.messages),
    };
    writeFileSync(join(recordDir, `${id}.json`), raw);
    requests.push(request);
    for (const wake of waiting) wake();
    const blocks = await answerBlocks(scripts, request);
    const messageId = `msg_scripted_${id}`;
    const model = body.model ?? "scripted";
    const headers = { "request-id": `req_scripted_${id}` };
    if (body.stream !== true) {
      const usage = { input_tokens: 1, output_tokens: 1 };
      const head = {
        id: messageId,
        type: "message",
        role: "assistant",
        model,
        stop_sequence: null,
        usage,
      };
      const content = blocks.map(({ delay_ms: _delay, tail_ms: _tail, ...block }) => block);
      return Response.json({ ...head, content, stop_reason: stopReason(blocks) }, { headers });
    }
    return new Response(streamed(id, eventsOf(model, blocks, messageId)), {
      headers: { ...headers, "content-type": "text/event-stream" },
    });
  }

  function streamed(
    id: string,
    chunks: readonly { pause: number; text: string }[],
  ): ReadableStream<Uint8Array> {
    const encoder = new TextEncoder();
    let cut = false;
    return new ReadableStream<Uint8Array>({
      async start(controller) {
        for (const [part, chunk] of chunks.entries()) {
          if (chunk.pause > 0) await Bun.sleep(chunk.pause);
          if (cut) return;
          log({ id, sent: part === chunks.length - 1 ? "message_stop" : part });
          controller.enqueue(encoder.encode(chunk.text));
        }
        controller.close();
      },
      cancel() {
        cut = true; // The client interrupted the answer (Esc) or went away.
        log({ id, sent: "cut" });
      },
    });
  }

  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: options.port ?? 0,
    idleTimeout: 255, // The longest Bun allows: a slow script must not be cut by the server.
    async fetch(incoming) {
      const url = new URL(incoming.url);
      const id = String(++count).padStart(4, "0");
      const raw = incoming.method === "POST" ? await incoming.text() : "";
      log({ id, method: incoming.method, path: url.pathname + url.search, bytes: raw.length });
      if (url.pathname.endsWith("/count_tokens")) return Response.json({ input_tokens: 100 });
      if (url.pathname === "/v1/messages" && incoming.method === "POST") {
        try {
          return await messages(id, raw);
        } catch (error) {
          log({ id, error: String(error) });
          return Response.json(
            { type: "error", error: { type: "invalid_request_error", message: String(error) } },
            { status: 400 },
          );
        }
      }
      writeFileSync(
        join(recordDir, `${id}-other.txt`),
        `${incoming.method} ${incoming.url}\n${raw}`,
      );
      return Response.json({ data: [] });
    },
  });

  const port = server.port ?? 0;
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    requests,
    waitFor(test, timeoutMs = 10_000) {
      return new Promise((resolve, reject) => {
        const check = () => {
          const found = requests.find(test);
          if (found === undefined) return;
          done();
          resolve(found);
        };
        const timer = setTimeout(() => {
          done();
          reject(
            new Error(`no such model request within ${timeoutMs} ms; ${requests.length} recorded`),
          );
        }, timeoutMs);
        const done = () => {
          clearTimeout(timer);
          waiting.delete(check);
        };
        waiting.add(check);
        check();
      });
    },
    async close() {
      await server.stop(true);
    },
  };
}

/** Scripts named on the command line: a folder, or a module with an exported `scripts`. */
async function scriptsFrom(path: string): Promise<ModelScripts | string> {
  if (statSync(path).isDirectory()) return path;
  const module = (await import(path)) as { scripts?: ModelScripts };
  if (module.scripts === undefined) throw new Error(`${path} exports no "scripts"`);
  return module.scripts;
}

if (import.meta.main) {
  const [scripts, recordDir] = process.argv.slice(2);
  if (scripts === undefined || recordDir === undefined) {
    console.error("usage: model-server.ts <scripts folder or module> <record folder>");
    process.exit(2);
  }
  const server = startModelServer({ scripts: await scriptsFrom(resolve(scripts)), recordDir });
  console.log(JSON.stringify({ port: server.port, url: server.url }));
  process.on("SIGTERM", () => void server.close().then(() => process.exit(0)));
}

/** TranscriptAdapter on records written badly. The readers come with transcripts; until then the fake stands alone. */
import { expect } from "bun:test";
import type {
  TranscriptAdapter,
  TranscriptChunk,
  TranscriptMessage,
  TranscriptPosition,
  TranscriptSource,
} from "../../src/ports/transcript.ts";
import { FakeAgent } from "../fakes/agent.ts";
import { bash } from "../fakes/agent-tools.ts";
import { FakeClock } from "../fakes/clock.ts";
import { FakeFiles } from "../fakes/files.ts";
import { FakeIds } from "../fakes/ids.ts";
import { FakeRecords, FakeTranscript, recordPath } from "../fakes/transcript.ts";
import { contract, type Implementation } from "../support/contract.ts";

const SESSION = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
const ROOT = "/home/me/shop.kiki_launch x";

interface Subject {
  adapter: TranscriptAdapter;
  home: string;
  path: string;
  append(path: string, bytes: string | Uint8Array): void;
  truncate(path: string, length: number): void;
  replace(path: string, bytes: string): void;
  remove(path: string): void;
  limits: { lineBytes: number; chunkBytes: number };
}

const implementations: Implementation<Subject>[] = [
  {
    name: "fake",
    make() {
      const records = new FakeRecords();
      const limits = { lineBytes: 2_000, chunkBytes: 4_000 };
      return {
        adapter: new FakeTranscript(records, limits),
        limits,
        home: "/home/me/.claude",
        path: recordPath("/home/me/.claude", ROOT, SESSION),
        append: (path, bytes) => records.append(path, bytes),
        truncate: (path, length) => records.truncate(path, length),
        replace: (path, bytes) => records.replace(path, bytes),
        remove: (path) => records.remove(path),
      };
    },
  },
];

let lines = 0;
/** A line of Claude Code's record: something a person typed. */
function typed(text: string, more: Record<string, unknown> = {}): string {
  lines += 1;
  const uuid = `row-${lines}`;
  const message = { role: "user", content: text };
  return JSON.stringify({ type: "user", isSidechain: false, message, uuid, cwd: ROOT, ...more });
}
function said(text: string): string {
  lines += 1;
  const content = [{ type: "text", text }];
  return JSON.stringify({ type: "assistant", message: { content }, uuid: `row-${lines}` });
}

async function source(s: Subject): Promise<TranscriptSource> {
  const found = await s.adapter.discover({ home: s.home, workspaceRoot: ROOT, sessionId: SESSION });
  if (found.length !== 1) throw new Error(`${found.length} records`);
  return found[0]!;
}
/** Reads to the end; texts of the messages, and what the chunks said. */
async function readAll(s: Subject, from: TranscriptPosition | null) {
  const chunks: TranscriptChunk[] = [];
  let position = from;
  do {
    chunks.push(await s.adapter.tail(await source(s), position));
    position = chunks.at(-1)!.position;
  } while (chunks.at(-1)!.more);
  const messages = chunks.flatMap((c) => c.entries.flatMap((e) => s.adapter.project(e)));
  const sum = (pick: (c: TranscriptChunk) => number): number =>
    chunks.reduce((total, c) => total + pick(c), 0);
  return {
    messages,
    texts: messages.map((m) => m.text),
    position,
    restarted: chunks[0]!.restarted,
    chunks: chunks.length,
    skipped: sum((c) => c.skippedLines),
    replaced: sum((c) => c.replacedBytes),
  };
}
const keys = (messages: readonly TranscriptMessage[]): string[] => messages.map((m) => m.dedupKey);

contract("transcript", implementations, [
  {
    name: "discover: folder with dots, underscores and spaces → exactly its session; neighbours are not",
    async run(s) {
      s.append(s.path, `${typed("one")}\n`);
      expect(await source(s)).toEqual({ sessionId: SESSION, path: s.path });
      const ask = (workspaceRoot: string, sessionId = SESSION) =>
        s.adapter.discover({ home: s.home, workspaceRoot, sessionId });
      expect(await ask(ROOT.slice(0, -1))).toEqual([]);
      expect(await ask(`${ROOT}y`)).toEqual([]);
      expect(await ask(ROOT, SESSION.replace("7c", "7d"))).toEqual([]);
      // Another folder with the same encoded name: the record itself says whose it is.
      expect(await ask(ROOT.replace(".", "_"))).toEqual([]);
    },
  },
  {
    name: "tail in pieces → every line once, the position only after whole lines",
    async run(s) {
      s.append(s.path, `${typed("one")}\n`);
      const first = await readAll(s, null);
      const torn = typed("two ✓");
      s.append(s.path, torn.slice(0, 20));
      const second = await readAll(s, first.position);
      expect([first.texts, second.texts, second.position]).toEqual([["one"], [], first.position]);
      s.append(s.path, `${torn.slice(20)}\n${said("three")}\n`);
      expect((await readAll(s, second.position)).texts).toEqual(["two ✓", "three"]);
    },
  },
  {
    name: "torn in the middle of a character → whole once the rest is there",
    async run(s) {
      const bytes = Buffer.from(`${typed("zażółć")}\n`);
      const cut = bytes.indexOf(0xc5) + 1;
      s.append(s.path, bytes.subarray(0, cut));
      const before = await readAll(s, null);
      s.append(s.path, bytes.subarray(cut));
      const after = await readAll(s, before.position);
      expect([after.texts, after.replaced]).toEqual([["zażółć"], 0]);
    },
  },
  {
    name: "position → the end of the last whole line, nothing before it is read; no file → null",
    async run(s) {
      s.append(s.path, `${typed("old")}\n{"torn`);
      const from = await s.adapter.position(await source(s));
      s.append(s.path, `": 1}\n${typed("new")}\n`);
      expect((await readAll(s, from)).texts).toEqual(["new"]);
      expect(await s.adapter.position({ sessionId: SESSION, path: `${s.path}.none` })).toBeNull();
    },
  },
  {
    name: "two records on one line → both; broken neighbours, NUL runs, bad escapes → skipped, counted, the rest read",
    async run(s) {
      const bad = `{"type":"user","text":"\\x"}`;
      s.append(s.path, `${typed("a}{b")}${said("two")}\n\n${bad}\nnot json\n`);
      s.append(s.path, Buffer.concat([Buffer.alloc(64), Buffer.from(`${typed("three")}\n`)]));
      s.append(s.path, `${typed("four\u2028still four")}\n`);
      const read = await readAll(s, null);
      expect(read.texts).toEqual(["a}{b", "two", "three", "four\u2028still four"]);
      expect(read.skipped).toBe(2);
    },
  },
  {
    name: "bytes that are no UTF-8 → replaced and counted; a written U+FFFD is not counted",
    async run(s) {
      const [head, tail] = typed("a?b\ufffd").split("?") as [string, string];
      s.append(
        s.path,
        Buffer.concat([Buffer.from(head), Buffer.from([0xff]), Buffer.from(`${tail}\n`)]),
      );
      const read = await readAll(s, null);
      expect([read.texts, read.replaced]).toEqual([["a\ufffdb\ufffd"], 1]);
    },
  },
  {
    name: "line over the limit → skipped and counted; both neighbours are read",
    async run(s) {
      const huge = typed("x".repeat(s.limits.lineBytes));
      s.append(s.path, `${typed("before")}\n${huge}\n${typed("after")}\n`);
      const read = await readAll(s, null);
      expect([read.texts, read.skipped]).toEqual([["before", "after"], 1]);
    },
  },
  {
    name: "more than one chunk holds → in order, by asking again",
    async run(s) {
      const texts = Array.from({ length: 60 }, (_, n) => `message ${n} ${"x".repeat(100)}`);
      for (const text of texts) s.append(s.path, `${typed(text)}\n`);
      const read = await readAll(s, null);
      expect(read.texts).toEqual(texts);
      expect(read.chunks).toBeGreaterThan(1);
    },
  },
  {
    name: "truncated, or another file under the path → from the top again, the same rows with the same keys",
    async run(s) {
      const [one, two, three] = [typed("one"), typed("two"), typed("three")];
      s.append(s.path, `${one}\n${two}\n`);
      const first = await readAll(s, null);
      s.truncate(s.path, one.length + 1);
      const cut = await readAll(s, first.position);
      expect([cut.restarted, keys(cut.messages)]).toEqual([true, keys(first.messages).slice(0, 1)]);
      s.replace(s.path, `${one}\n${two}\n${three}\n`);
      const replaced = await readAll(s, cut.position);
      expect([replaced.restarted, replaced.texts]).toEqual([true, ["one", "two", "three"]]);
      expect(keys(replaced.messages).slice(0, 2)).toEqual(keys(first.messages));
      expect((await readAll(s, replaced.position)).restarted).toBe(false);
    },
  },
  {
    name: "file gone → nothing, no position, no error",
    async run(s) {
      s.append(s.path, `${typed("one")}\n`);
      const known = await source(s);
      s.remove(s.path);
      const chunk = await s.adapter.tail(known, { file: "1", offset: 5 });
      expect(chunk).toMatchObject({ entries: [], position: null, restarted: false, more: false });
    },
  },
  {
    name: "timestamps that go back, or none → kept as they are, in the order of the file",
    async run(s) {
      s.append(s.path, `${typed("late", { timestamp: "2026-11-30T20:00:00.000Z" })}\n`);
      s.append(s.path, `${typed("early", { timestamp: "2026-11-29T20:00:00.000Z" })}\n`);
      s.append(s.path, `${typed("never")}\n${typed("odd", { timestamp: "yesterday" })}\n`);
      const read = await readAll(s, null);
      expect(read.messages.map((m) => m.at)).toEqual([
        Date.UTC(2026, 10, 30, 20),
        Date.UTC(2026, 10, 29, 20),
        null,
        null,
      ]);
    },
  },
  {
    name: "project: what a person typed and an agent said → messages; tools, thinking, side chains, summaries → none",
    async run(s) {
      const row = (type: string, content: unknown, more: Record<string, unknown> = {}) =>
        `${JSON.stringify({ type, message: { content }, uuid: `x-${(lines += 1)}`, ...more })}\n`;
      s.append(s.path, `${typed("hello")}\n`);
      s.append(s.path, row("assistant", [{ type: "thinking", thinking: "hm" }]));
      s.append(s.path, row("assistant", [{ type: "tool_use", id: "t", name: "Bash", input: {} }]));
      s.append(s.path, row("user", [{ type: "tool_result", tool_use_id: "t", content: "out" }]));
      s.append(s.path, row("user", "side", { isSidechain: true }));
      s.append(s.path, row("user", "injected", { isMeta: true }));
      s.append(s.path, row("user", "summary", { isCompactSummary: true }));
      s.append(s.path, `${JSON.stringify({ type: "queue-operation", uuid: "q" })}\n[1]\n"x"\n`);
      s.append(s.path, `${said("hi")}\n`);
      const read = await readAll(s, null);
      expect(read.messages.map((m) => [m.author, m.text])).toEqual([
        ["human", "hello"],
        ["agent", "hi"],
      ]);
    },
  },
  {
    name: "record of a fake agent's session → its prompts and answers, and no tool results",
    async run(s) {
      const agent = new FakeAgent({
        hooks: {
          daemon: {
            preToolUse: () => Promise.resolve({ decision: "pass" }),
            hold: () => Promise.reject(new Error("nothing is held")),
            markDelivered: () => Promise.resolve(),
            event: () => Promise.resolve(),
          },
          disk: {
            barred: () => false,
            recordPass: () => () => undefined,
            spool: () => undefined,
            log: () => undefined,
          },
        },
        files: new FakeFiles(),
        ids: new FakeIds(),
        cwd: ROOT,
        sessionId: SESSION,
        clock: new FakeClock(),
        record: (line) => s.append(s.path, `${JSON.stringify(line)}\n`),
      });
      agent.start("startup", "write the lexer");
      await agent.run();
      agent.main.respond([bash("ls")]);
      await agent.run();
      agent.main.finish("It is written.");
      await agent.run();
      const { messages } = await readAll(s, null);
      expect(messages.map((m) => [m.author, m.text])).toEqual([
        ["human", "write the lexer"],
        ["agent", "It is written."],
      ]);
    },
  },
]);

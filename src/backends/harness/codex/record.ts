/**
 * Codex's session record, the rollout file (0.171.0): one JSON object a line, only ever appended to. The line of a call
 * is there before its PreToolUse hook, its output before the model's next request, and every response ends with a
 * `token_usage_record` after the lines of its calls and before their outputs.
 */
import { closeSync, fstatSync, openSync, readdirSync, readSync, type BigIntStats } from "node:fs";
import { join } from "node:path";
import type { SessionRecord } from "../../../ports/harness.ts";

const PIECE_BYTES = 1024 * 1024;
/** Read again before what follows it: another text there means that the file was rewritten. */
const ANCHOR_BYTES = 256;
/** Refusals are kept whole, of anything else its beginning: it is compared with refusals only. */
const KEPT_OUTPUT_CHARACTERS = 4_096;
const REFUSAL = / blocked by PreToolUse hook: /;
const MAX_FILES = 64;
/** Texts of the newest calls only: a call that long ago is nobody's receipt any more. */
const MAX_TEXTS = 2_000;

/** Words of the lines that matter; all others are passed over unparsed. */
const WORDS = ["token_usage_record", "function_call", "custom_tool_call", "task_complete"].map(
  (word) => Buffer.from(`"${word}`),
);
const NEWLINE = 10;

interface Known {
  identity: string;
  /** Bytes read: up to the last line that was whole. */
  offset: number;
  /** What stands right before `offset`. */
  anchor: Buffer;
  responseCount: number;
  responses: Map<string, number>;
  outputs: Map<string, string>;
  commands: Map<string, string>;
  refusal: SessionRecord["refusal"];
}

export class RolloutReader {
  readonly #known = new Map<string, Known>();

  /** Reads what is new since the last time. null: it cannot be read now. */
  read(path: string): SessionRecord | null {
    let fd: number;
    try {
      fd = openSync(path, "r");
    } catch {
      return null;
    }
    try {
      const stat = fstatSync(fd, { bigint: true });
      if (!stat.isFile()) return null;
      const known = this.#sameFile(path, fd, stat) ?? unread(stat);
      readOn(known, fd, Number(stat.size));
      this.#remember(path, known);
      return known;
    } catch {
      this.#known.delete(path);
      return null;
    } finally {
      closeSync(fd);
    }
  }

  #sameFile(path: string, fd: number, stat: BigIntStats): Known | null {
    const known = this.#known.get(path);
    if (known?.identity !== identityOf(stat) || Number(stat.size) < known.offset) return null;
    const { anchor, offset } = known;
    const now = Buffer.alloc(anchor.length);
    return readFully(fd, now, offset - anchor.length) && now.equals(anchor) ? known : null;
  }

  #remember(path: string, known: Known): void {
    this.#known.delete(path);
    this.#known.set(path, known);
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_FILES && oldest !== undefined) this.#known.delete(oldest);
  }
}

function identityOf(stat: BigIntStats): string {
  return `${stat.dev}:${stat.ino}`;
}

function unread(stat: BigIntStats): Known {
  return {
    identity: identityOf(stat),
    offset: 0,
    anchor: Buffer.alloc(0),
    responseCount: 0,
    responses: new Map(),
    outputs: new Map(),
    commands: new Map(),
    refusal: null,
  };
}

/** Takes every whole line up to `size`; a torn last one is left for the next time. */
function readOn(known: Known, fd: number, size: number): void {
  let pending = Buffer.alloc(0);
  let at = known.offset;
  while (at < size) {
    const piece = Buffer.alloc(Math.min(PIECE_BYTES, size - at));
    if (!readFully(fd, piece, at)) return; // cut meanwhile: the next look sees that
    at += piece.length;
    const bytes = pending.length === 0 ? piece : Buffer.concat([pending, piece]);
    let from = 0;
    for (;;) {
      const end = bytes.indexOf(NEWLINE, from);
      if (end < 0) break;
      takeLine(known, bytes.subarray(from, end));
      from = end + 1;
    }
    if (from > 0) {
      known.offset += from;
      known.anchor = Buffer.from(bytes.subarray(Math.max(0, from - ANCHOR_BYTES), from));
    }
    pending = bytes.subarray(from);
  }
}

function readFully(fd: number, into: Buffer, position: number): boolean {
  let done = 0;
  while (done < into.length) {
    const length = readSync(fd, into, done, into.length - done, position + done);
    if (length === 0) return false;
    done += length;
  }
  return true;
}

/** `sessions/YYYY/MM/DD/rollout-<local time>-<id>.jsonl` below a home, the newest day first; null: none has this id. */
export function findRecord(home: string, sessionId: string): string | null {
  const below = (folder: string): string[] => {
    try {
      return readdirSync(folder).sort().reverse();
    } catch {
      return []; // not there yet
    }
  };
  const sessions = join(home, "sessions");
  for (const year of below(sessions))
    for (const month of below(join(sessions, year)))
      for (const day of below(join(sessions, year, month))) {
        const folder = join(sessions, year, month, day);
        const name = below(folder).find((file) => file.endsWith(`-${sessionId}.jsonl`));
        if (name !== undefined) return join(folder, name);
      }
  return null;
}

type Item = Record<string, unknown>;

function takeLine(known: Known, line: Buffer): void {
  if (!WORDS.some((word) => line.includes(word))) return;
  let entry: { type?: unknown; payload?: unknown };
  try {
    entry = JSON.parse(line.toString("utf8")) as typeof entry;
  } catch {
    return; // whole, and still no JSON: it says nothing
  }
  const item = (typeof entry.payload === "object" ? entry.payload : null) as Item | null;
  if (entry.type === "token_usage_record" || item?.["type"] === "token_usage_record") {
    known.responseCount += 1;
    known.refusal = null;
    return;
  }
  if (item?.["type"] === "task_complete" && known.responseCount === 0)
    known.refusal = refusalIn(item);
  const id = item?.["call_id"];
  if (entry.type !== "response_item" || item === null || typeof id !== "string") return;
  switch (item["type"]) {
    case "function_call":
    case "custom_tool_call":
      known.responses.set(id, known.responseCount);
      // A provider may use an id again: what the earlier call got is nothing of this one's.
      known.outputs.delete(id);
      known.commands.delete(id);
      takeCommand(known, id, item);
      return;
    case "function_call_output":
    case "custom_tool_call_output":
      keep(known.outputs, id, kept(item["output"]));
      return;
  }
}

/** Errors that are about the connection, the login or the account, as Codex classes them. */
const NOT_ABOUT_THE_REQUEST =
  /usage|limit|overload|unauthor|connect|timeout|timed_out|stream|internal_server|budget/;

/** The provider's own sentence, which Codex hands on as it came; null: the turn has not failed by what was asked. */
function refusalIn({ error, turn_id: turn }: Item): SessionRecord["refusal"] {
  const said = refusedBy(error);
  return said === null ? null : { turn: typeof turn === "string" ? turn : null, said };
}

function refusedBy(error: unknown): string | null {
  if (typeof error !== "object" || error === null) return null;
  const { message, codex_error_info: info } = error as Record<string, unknown>;
  if (NOT_ABOUT_THE_REQUEST.test(textOf(info ?? "").toLowerCase())) return null;
  const said = textOf(message ?? "no reason given");
  try {
    const { error: inner } = JSON.parse(said) as { error?: { message?: unknown } | null };
    if (typeof inner?.message === "string") return inner.message;
  } catch {
    // words, not an object
  }
  return said;
}

/** The command line of `exec_command`, the patch of `apply_patch`: a refusal repeats them. */
function takeCommand(known: Known, id: string, item: Item): void {
  if (item["type"] === "custom_tool_call") {
    keep(known.commands, id, textOf(item["input"]));
    return;
  }
  if (item["name"] !== "exec_command") return;
  try {
    const { cmd } = JSON.parse(textOf(item["arguments"])) as { cmd?: unknown };
    keep(known.commands, id, textOf(cmd));
  } catch {
    // Arguments that are no JSON: such a call never gets to a hook.
  }
}

function keep(texts: Map<string, string>, id: string, text: string): void {
  texts.set(id, text);
  const [oldest] = texts.keys();
  if (texts.size > MAX_TEXTS && oldest !== undefined) texts.delete(oldest);
}

function kept(output: unknown): string {
  const text = textOf(output);
  return REFUSAL.test(text.slice(0, KEPT_OUTPUT_CHARACTERS))
    ? text
    : text.slice(0, KEPT_OUTPUT_CHARACTERS);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value ?? null);
}

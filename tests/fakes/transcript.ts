/**
 * Session records in memory, written badly on purpose, and their reader. Lines are those of Claude Code 2.1.332:
 * `projects/<workspace, every character but letters and digits as "-">/<session>.jsonl` in the harness's folder.
 */
import {
  TRANSCRIPT_LIMITS,
  type TranscriptAdapter,
  type TranscriptChunk,
  type TranscriptEntry,
  type TranscriptMessage,
  type TranscriptPosition,
  type TranscriptSource,
} from "../../src/ports/transcript.ts";

const NEWLINE = 0x0a;

/** Files as bytes, each with an identity of its own. */
export class FakeRecords {
  readonly #files = new Map<string, { inode: number; bytes: Buffer }>();
  #nextInode = 1;

  get paths(): string[] {
    return [...this.#files.keys()];
  }

  file(path: string): { inode: number; bytes: Buffer } | null {
    return this.#files.get(path) ?? null;
  }

  append(path: string, bytes: string | Uint8Array): void {
    const file = this.#files.get(path) ?? { inode: this.#newInode(), bytes: Buffer.alloc(0) };
    file.bytes = Buffer.concat([file.bytes, Buffer.from(bytes as string)]);
    this.#files.set(path, file);
  }

  /** The same file, cut to its first bytes. */
  truncate(path: string, length: number): void {
    const file = this.#files.get(path)!;
    file.bytes = file.bytes.subarray(0, length);
  }

  /** Another file takes the path. */
  replace(path: string, bytes: string | Uint8Array): void {
    this.#files.set(path, { inode: this.#newInode(), bytes: Buffer.from(bytes as string) });
  }

  remove(path: string): void {
    this.#files.delete(path);
  }

  #newInode(): number {
    this.#nextInode += 1;
    return this.#nextInode;
  }
}

export function recordPath(home: string, workspaceRoot: string, sessionId: string): string {
  return `${home}/projects/${workspaceRoot.replace(/[^A-Za-z0-9]/g, "-")}/${sessionId}.jsonl`;
}

export class FakeTranscript implements TranscriptAdapter {
  readonly #records: FakeRecords;
  readonly #limits: { lineBytes: number; chunkBytes: number };

  constructor(
    records: FakeRecords,
    limits: { lineBytes: number; chunkBytes: number } = TRANSCRIPT_LIMITS,
  ) {
    this.#records = records;
    this.#limits = limits;
  }

  async discover(input: {
    home: string;
    workspaceRoot: string;
    sessionId: string;
  }): Promise<TranscriptSource[]> {
    if (!/^[0-9a-f-]{36}$/.test(input.sessionId)) throw new Error("a session id is a uuid");
    const path = recordPath(input.home, input.workspaceRoot, input.sessionId);
    const file = this.#records.file(path);
    // Two folders may have one encoded name: a record says itself where it was written.
    if (file === null || !writtenIn(file.bytes, input.workspaceRoot)) return [];
    return [{ sessionId: input.sessionId, path }];
  }

  async position(source: TranscriptSource): Promise<TranscriptPosition | null> {
    const file = this.#records.file(source.path);
    if (file === null) return null;
    return { file: String(file.inode), offset: file.bytes.lastIndexOf(NEWLINE) + 1 };
  }

  async tail(source: TranscriptSource, from: TranscriptPosition | null): Promise<TranscriptChunk> {
    const file = this.#records.file(source.path);
    const chunk: TranscriptChunk = {
      entries: [],
      position: null,
      restarted: false,
      more: false,
      replacedBytes: 0,
      skippedLines: 0,
    };
    if (file === null) return chunk;
    const name = String(file.inode);
    chunk.restarted = from !== null && (from.file !== name || from.offset > file.bytes.length);
    let at = from === null || chunk.restarted ? 0 : from.offset;
    const start = at;
    for (;;) {
      const end = file.bytes.indexOf(NEWLINE, at);
      if (end < 0) break;
      if (at > start && end - start > this.#limits.chunkBytes) {
        chunk.more = true;
        break;
      }
      this.#line(chunk, file.bytes.subarray(at, end), at);
      at = end + 1;
    }
    chunk.position = { file: name, offset: at };
    return chunk;
  }

  project(entry: TranscriptEntry): TranscriptMessage[] {
    const line = entry.value as Record<string, unknown> | null;
    if (typeof line !== "object" || line === null) return [];
    if (line["isSidechain"] === true || line["isMeta"] === true) return [];
    if (line["isCompactSummary"] === true || typeof line["uuid"] !== "string") return [];
    const text = textOf(line);
    if (text === null || text === "") return [];
    const at = typeof line["timestamp"] === "string" ? Date.parse(line["timestamp"]) : Number.NaN;
    return [
      {
        dedupKey: line["uuid"],
        author: line["type"] === "user" ? "human" : "agent",
        text,
        at: Number.isNaN(at) ? null : at,
      },
    ];
  }

  #line(chunk: TranscriptChunk, bytes: Buffer, offset: number): void {
    if (bytes.length === 0) return;
    if (bytes.length > this.#limits.lineBytes) {
      chunk.skippedLines += 1;
      return;
    }
    const text = bytes.toString("utf8").replaceAll("\0", "");
    const lost = countReplaced(bytes, text);
    chunk.replacedBytes += lost;
    const values = documentsIn(text);
    if (values === null) chunk.skippedLines += 1;
    else for (const value of values) chunk.entries.push({ value, offset });
  }
}

/** Text a person typed or an agent said; null for everything else. */
function textOf(line: Record<string, unknown>): string | null {
  const message = line["message"] as { content?: unknown } | undefined;
  if (line["type"] === "user") {
    return typeof message?.content === "string" ? message.content : null;
  }
  if (line["type"] !== "assistant" || !Array.isArray(message?.content)) return null;
  const parts = message.content as { type?: unknown; text?: unknown }[];
  const said = parts.filter((part) => part.type === "text" && typeof part.text === "string");
  return said.length === 0 ? null : said.map((part) => part.text as string).join("");
}

/** The JSON documents on a line: one, or several where a line end was lost; null when it is not JSON throughout. */
function documentsIn(text: string): unknown[] | null {
  try {
    return [JSON.parse(text)];
  } catch {
    // Two objects in a row: cut wherever one may end, and take the first cut that fits.
    for (let at = text.indexOf("}{"); at >= 0; at = text.indexOf("}{", at + 1)) {
      const first = documentsIn(text.slice(0, at + 1));
      const rest = first === null ? null : documentsIn(text.slice(at + 1));
      if (first !== null && rest !== null) return [...first, ...rest];
    }
    return null;
  }
}

function countReplaced(bytes: Buffer, text: string): number {
  const own = bytes.toString("latin1").split("\u00ef\u00bf\u00bd").length - 1;
  return text.split("\ufffd").length - 1 - own;
}

/** A line that names a folder names this one, or no line names any. */
function writtenIn(bytes: Buffer, workspaceRoot: string): boolean {
  const named = [...bytes.toString("utf8").matchAll(/"cwd":("(?:[^"\\]|\\.)*")/g)];
  if (named.length === 0) return true;
  return named.some((m) => JSON.parse(m[1]!) === workspaceRoot);
}

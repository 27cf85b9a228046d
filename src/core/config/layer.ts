/** What one layer says: its values with their places, and what is wrong in it. Never throws for what a person wrote. */
import { parse, TomlError } from "smol-toml";
import { nearest } from "../nearest.ts";
import { findKey, spelledKeys } from "./lookup.ts";
import { keyPositions, pathId, type Position, type Positions } from "./positions.ts";
import { envName, type KeySpec, type Layer } from "./spec.ts";
import { shown } from "./text.ts";

/** Where a value comes from. A file's layer has file, line and column; the environment has the variable. */
export interface Source {
  layer: Layer;
  file: string | null;
  line: number | null;
  column: number | null;
  variable: string | null;
}

export interface Entry {
  value: unknown;
  source: Source;
  /** The last good value: what is written there now cannot be used. */
  kept: boolean;
}

/** By the dotted key. A map's names are keys of their own, so maps merge by name and lists replace each other. */
export type Entries = ReadonlyMap<string, Entry>;

export interface Problem extends Source {
  /** `error`: a value could not be taken. `warning`: something was ignored. */
  severity: "error" | "warning";
  /** null: the whole file. */
  key: string | null;
  message: string;
}

export interface LayerRead {
  layer: Layer;
  entries: Entries;
  problems: readonly Problem[];
  /** Keys, tables, or everything (""), that an error made unreadable. */
  lost: readonly string[];
}

/** More would only hide the first ones. */
const MAX_PROBLEMS = 50;
/** Deeper than any key; what lies below is named by its table. */
const MAX_DEPTH = 8;

export function noSource(layer: Layer): Source {
  return { layer, file: null, line: null, column: null, variable: null };
}

export function emptyLayer(layer: Layer): LayerRead {
  return { layer, entries: new Map(), problems: [], lost: [] };
}

/** A layer of which nothing can be read, for a reason that has no place in its text. */
export function unreadableLayer(layer: Layer, file: string, message: string): LayerRead {
  return broken({ ...noSource(layer), file }, message);
}

/** One TOML file. */
export function readDocument(layer: Layer, file: string, bytes: Uint8Array): LayerRead {
  const source = { ...noSource(layer), file };
  const text = decode(bytes);
  if (typeof text !== "string") return broken({ ...source, ...text }, "this is not UTF-8 text");
  let document: Record<string, unknown>;
  try {
    document = parse(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const { line, column } = error;
    // The rest of smol-toml's message draws the line, for terminals.
    const why = (error.message.split("\n")[0] ?? "").replace("Invalid TOML document: ", "");
    return broken({ ...source, line, column }, `this is not TOML: ${why}`);
  }
  const reading = new Reading(source, keyPositions(text));
  reading.table([], document);
  return reading.result();
}

/** Values with no place of their own in a text, by dotted key: flags, and rows of the database. */
export function readValues(layer: Layer, values: Readonly<Record<string, unknown>>): LayerRead {
  const reading = new Reading(noSource(layer), new Map());
  for (const [dotted, value] of Object.entries(values)) reading.value(dotted.split("."), value);
  return reading.result();
}

/** Reads values that belong to one source. */
export class Reading {
  readonly #source: Source;
  readonly #positions: Positions;
  readonly #entries = new Map<string, Entry>();
  readonly #problems: Problem[] = [];
  readonly #lost: string[] = [];
  #unsaid = 0;

  constructor(source: Source, positions: Positions) {
    this.#source = source;
    this.#positions = positions;
  }

  result(): LayerRead {
    if (this.#unsaid > 0) {
      const message = `and ${this.#unsaid} more problems`;
      this.#problems.push({ ...this.#source, severity: "warning", key: null, message });
      this.#unsaid = 0;
    }
    return {
      layer: this.#source.layer,
      entries: this.#entries,
      problems: this.#problems,
      lost: this.#lost,
    };
  }

  table(words: readonly string[], table: object): void {
    for (const [word, value] of Object.entries(table)) this.value([...words, word], value);
  }

  value(words: readonly string[], value: unknown, variable: string | null = null): void {
    const found = findKey(words);
    const dotted = words.join(".");
    const at = variable === null ? {} : { variable };
    switch (found.is) {
      case "key":
        return this.#key(words, found.spec, value, at);
      case "table":
        if (isTable(value)) return this.table(words, value);
        return this.#error(words, `${dotted} must be a table, not ${shown(value)}`, at);
      case "refused":
        return this.#error(words, found.why, at);
      case "unknown": {
        const below = isTable(value) && words.length < MAX_DEPTH ? Object.keys(value) : [];
        if (below.length > 0) return this.table(words, value as object);
        return this.#warning(words, () => `unknown key ${printed(dotted)}${meant(dotted)}`, at);
      }
    }
  }

  /** `value` could not even be read. */
  unusable(words: readonly string[], expected: string, value: string, variable: string): void {
    this.#error(words, `${variable} must be ${expected}, not ${shown(value)}`, { variable });
  }

  unknownVariable(variable: string, near: string | null): void {
    const did = near === null ? "" : ` — did you mean ${near}?`;
    this.#warning([], () => `no key is set by ${printed(variable)}${did}`, { variable });
  }

  #key(words: readonly string[], spec: KeySpec, value: unknown, at: Partial<Source>): void {
    const dotted = words.join(".");
    const { layer } = this.#source;
    if (!spec.layers.includes(layer)) {
      return this.#warning(words, () => `${dotted} is ignored here: ${whereInstead(dotted, spec)}`);
    }
    const checked = spec.schema.safeParse(value);
    if (checked.success) {
      const source = { ...this.#source, ...this.#place(words, "key"), ...at };
      this.#entries.set(dotted, { value: checked.data, source, kept: false });
      return;
    }
    const name = at.variable ?? dotted;
    this.#error(words, `${name} must be ${spec.expected}, not ${shown(value)}`, at);
  }

  #error(words: readonly string[], message: string, at: Partial<Source> = {}): void {
    const key = words.join(".");
    this.#lost.push(key);
    this.#add({ ...this.#source, ...this.#place(words, "value"), ...at }, "error", key, message);
  }

  #warning(words: readonly string[], message: () => string, at: Partial<Source> = {}): void {
    // Looking for the nearest key costs something: not for the thousandth problem.
    if (this.#problems.length >= MAX_PROBLEMS) {
      this.#unsaid += 1;
      return;
    }
    const source = { ...this.#source, ...this.#place(words, "key"), ...at };
    this.#add(source, "warning", words.join("."), message());
  }

  #add(source: Source, severity: Problem["severity"], key: string, message: string): void {
    if (this.#problems.length >= MAX_PROBLEMS) this.#unsaid += 1;
    else this.#problems.push({ ...source, severity, key, message });
  }

  #place(words: readonly string[], part: "key" | "value"): Partial<Position> {
    const place = this.#positions.get(pathId(words))?.[part];
    return place === undefined ? {} : { line: place.line, column: place.column };
  }
}

function broken(source: Source, message: string): LayerRead {
  const problem: Problem = { ...source, severity: "error", key: null, message };
  return { layer: source.layer, entries: new Map(), problems: [problem], lost: [""] };
}

/** The text without its byte order mark, or where it stops being UTF-8. */
function decode(bytes: Uint8Array): string | Position {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    const lines = new TextDecoder("utf-8").decode(bytes).split("\n");
    const line = lines.findIndex((text) => text.includes("\ufffd"));
    return { line: line + 1, column: (lines[line]?.indexOf("\ufffd") ?? 0) + 1 };
  }
}

/** smol-toml's tables have no prototype; its lists and dates have theirs. */
function isTable(value: unknown): value is object {
  if (value === null || typeof value !== "object") return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

function whereInstead(dotted: string, spec: KeySpec): string {
  const files: readonly Layer[] = ["user", "repo-local"];
  if (files.some((layer) => spec.layers.includes(layer))) {
    return spec.layers.includes("repo-shared")
      ? "it is a rule for the whole repository"
      : "only your own configuration may set it";
  }
  return `it is read from ${envName(dotted)} alone`;
}

/** Control characters of a quoted key must not reach a terminal. */
function printed(name: string): string {
  const plain = /^[\w.-]+$/.test(name) ? name : JSON.stringify(name);
  return plain.length <= 80 ? plain : `${plain.slice(0, 79)}…`;
}

function meant(dotted: string): string {
  const near = nearestKey(dotted);
  return near === null ? "" : ` — did you mean ${near}?`;
}

/** The key a person may have meant: a slip of the keyboard, or the right word in another table. */
export function nearestKey(dotted: string): string | null {
  // The distance to a text much longer than any key is work for nothing.
  if (dotted.length > 80) return null;
  const known = spelledKeys();
  const slip = nearest(dotted, known);
  if (slip !== null) return slip;
  const last = dotted.slice(dotted.lastIndexOf(".") + 1);
  const same = known.filter((name) => name.slice(name.lastIndexOf(".") + 1) === last);
  return same.length === 1 ? same[0]! : null;
}

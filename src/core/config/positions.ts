/**
 * Where each key of a TOML document stands. smol-toml (1.9.1) gives positions for its errors alone; this reads a
 * document it has accepted, so nothing is checked here again, and what is not understood is simply not found.
 */

/** Both from 1; columns in UTF-16 units, as smol-toml counts them. */
export interface Position {
  line: number;
  column: number;
}

export interface KeyPosition {
  key: Position;
  /** Of a table's header: the same as `key`. */
  value: Position;
}

/** Positions by `pathId`. A key written several times (a table's header and its dotted keys) has its first place. */
export type Positions = ReadonlyMap<string, KeyPosition>;

/** One spelling of a path; keys may hold dots, quotes and spaces. */
export function pathId(words: readonly string[]): string {
  return JSON.stringify(words);
}

/** `toml` without a byte order mark. */
export function keyPositions(toml: string): Positions {
  return new Reader(toml).read();
}

const BARE = /[A-Za-z0-9_-]/;

class Reader {
  readonly #text: string;
  readonly #found = new Map<string, KeyPosition>();
  #at = 0;
  #line = 1;
  #lineStart = 0;

  constructor(toml: string) {
    this.#text = toml;
  }

  read(): Positions {
    let table: string[] = [];
    for (;;) {
      this.#skipBlank();
      if (this.#at >= this.#text.length) return this.#found;
      if (this.#peek() === "[") {
        const at = this.#position();
        while (this.#peek() === "[") this.#at += 1;
        table = this.#path();
        this.#record(table, at, at);
        while (this.#peek() === "]") this.#at += 1;
      } else this.#pair(table);
    }
  }

  #pair(table: readonly string[]): void {
    const before = this.#at;
    const key = this.#position();
    const words = [...table, ...this.#path()];
    this.#skipBlank();
    if (this.#peek() === "=") this.#at += 1;
    this.#skipBlank();
    this.#record(words, key, this.#position());
    this.#value(words);
    // Something that is no pair: step over it, so that reading always ends.
    if (this.#at === before) this.#at += 1;
  }

  #path(): string[] {
    const words: string[] = [];
    for (;;) {
      this.#skipBlank();
      words.push(this.#word());
      this.#skipBlank();
      if (this.#peek() !== ".") return words;
      this.#at += 1;
    }
  }

  #word(): string {
    const quote = this.#peek();
    if (quote !== '"' && quote !== "'") {
      const start = this.#at;
      while (BARE.test(this.#peek())) this.#at += 1;
      return this.#text.slice(start, this.#at);
    }
    const start = this.#at;
    this.#string();
    const raw = this.#text.slice(start + 1, this.#at - 1);
    return quote === "'" ? raw : unescaped(raw);
  }

  #value(words: readonly string[]): void {
    const first = this.#peek();
    if (first === '"' || first === "'") this.#string();
    else if (first === "[") this.#inside("]", () => this.#value([...words, ""]));
    else if (first === "{") this.#inside("}", () => this.#pair(words));
    else while (this.#at < this.#text.length && !/[,\]}#\n]/.test(this.#peek())) this.#at += 1;
  }

  /** Elements up to `end`, with white space, comments and commas between them. */
  #inside(end: "]" | "}", element: () => void): void {
    this.#at += 1;
    for (;;) {
      this.#skipBlank();
      if (this.#at >= this.#text.length) return;
      const next = this.#peek();
      if (next === end || next === ",") this.#at += 1;
      if (next === end) return;
      if (next === ",") continue;
      const before = this.#at;
      element();
      if (this.#at === before) this.#at += 1;
    }
  }

  /** A string of any of the four kinds; lines inside it count. */
  #string(): void {
    const quote = this.#peek();
    const long = this.#text.startsWith(quote.repeat(3), this.#at);
    const end = long ? quote.repeat(3) : quote;
    this.#at += end.length;
    while (this.#at < this.#text.length && !this.#text.startsWith(end, this.#at)) {
      if (quote === '"' && this.#peek() === "\\") this.#step();
      this.#step();
    }
    this.#at += end.length;
    // Up to two quotes may stand right before the closing three: they belong to the string.
    while (long && this.#peek() === quote) this.#at += 1;
  }

  #skipBlank(): void {
    for (;;) {
      const next = this.#peek();
      if (next === "#") while (this.#at < this.#text.length && this.#peek() !== "\n") this.#at += 1;
      else if (next === " " || next === "\t" || next === "\r" || next === "\n") this.#step();
      else return;
    }
  }

  #step(): void {
    if (this.#peek() === "\n") {
      this.#line += 1;
      this.#lineStart = this.#at + 1;
    }
    this.#at += 1;
  }

  #peek(): string {
    return this.#text[this.#at] ?? "";
  }

  #position(): Position {
    return { line: this.#line, column: this.#at - this.#lineStart + 1 };
  }

  #record(words: readonly string[], key: Position, value: Position): void {
    const id = pathId(words);
    if (!this.#found.has(id)) this.#found.set(id, { key, value });
  }
}

const ESCAPES: Readonly<Record<string, string>> = {
  b: "\b",
  t: "\t",
  n: "\n",
  f: "\f",
  r: "\r",
  e: "\u001b",
};

function unescaped(raw: string): string {
  return raw.replace(
    /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))/g,
    (_all, x?: string, u?: string, long?: string, one?: string) => {
      const hex = x ?? u ?? long;
      if (hex !== undefined) return String.fromCodePoint(Number.parseInt(hex, 16));
      return ESCAPES[one ?? ""] ?? one ?? "";
    },
  );
}

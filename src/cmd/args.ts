/**
 * Strict reading of a command line against citty's definitions. citty itself (0.2.2) ignores unknown flags, takes a
 * missing value for an empty one and reads `-m --no-x` as a negation; here each of these is one clear error, and
 * citty then gets a normalised line in which it cannot misread anything.
 */
import type { ArgDef, CommandDef, SubCommandsDef } from "citty";
import { fail, type KikiError } from "../core/errors.ts";
import { nearest } from "../core/nearest.ts";

/** `repeat`: the flag may be given several times; all values are in `lists`. */
export type KkArg = ArgDef & { repeat?: true };

export interface CommandData {
  /** Values of repeatable flags, in order, by flag name. */
  lists: Record<string, string[]>;
}

export interface ParsedLine {
  /** `["daemon", "status"]`; empty for bare `kk`. */
  path: string[];
  command: CommandDef;
  /** For citty: `--flag=value`, `--no-flag`, then `--` and the positionals. */
  canonical: string[];
  data: CommandData;
  /** Given anywhere on the line. */
  help: boolean;
  version: boolean;
  verbose: boolean;
}

interface Flag {
  name: string;
  def: KkArg;
  /** As typed, for messages. */
  typed: string;
  negated: boolean;
  value: string | undefined;
}

interface Globals {
  help: boolean;
  version: boolean;
  verbose: boolean;
}

const GLOBAL_FLAGS: ReadonlyMap<string, keyof Globals> = new Map([
  ["--help", "help"],
  ["-h", "help"],
  ["--version", "version"],
  ["--verbose", "verbose"],
]);

/** Throws KikiError of kind usage; with `--help` or `--version` on the line, nothing but the path is checked. */
export async function parseCommandLine(
  root: CommandDef,
  argv: readonly string[],
): Promise<ParsedLine> {
  const globals: Globals = { help: false, version: false, verbose: false };
  const rest = takeGlobalsUpToCommand([...argv], globals);
  const path: string[] = [];
  let command = root;
  for (;;) {
    const subCommands = await resolved(command.subCommands);
    if (subCommands === undefined || rest.length === 0) break;
    const word = rest[0]!;
    if (word.startsWith("-")) break;
    const next = Object.hasOwn(subCommands, word) ? subCommands[word] : undefined;
    if (next === undefined) throw unknownCommand(path, word, visibleNames(subCommands));
    path.push(word);
    rest.shift();
    command = (await resolved(next)) as CommandDef;
    takeGlobalsUpToCommand(rest, globals);
  }
  const defs = ((await resolved(command.args)) ?? {}) as Record<string, KkArg>;
  // Help must work on a line that is wrong otherwise: that is when it is asked for.
  const help = globals.help || rest.includes("--help") || rest.includes("-h");
  const done = help || globals.version;
  if (!done && path.length > 0 && command.run === undefined) {
    throw missingSubCommand(path, visibleNames((await resolved(command.subCommands)) ?? {}));
  }
  const read = done ? { canonical: [], lists: {} } : readArguments(path, defs, rest, globals);
  return {
    path,
    command,
    canonical: read.canonical,
    data: { lists: read.lists },
    ...globals,
    help,
  };
}

/** Global flags that stand before the next word are taken off `words`, which is returned. */
function takeGlobalsUpToCommand(words: string[], globals: Globals): string[] {
  for (;;) {
    const global = GLOBAL_FLAGS.get(words[0] ?? "");
    if (global === undefined) return words;
    globals[global] = true;
    words.shift();
  }
}

function readArguments(
  path: readonly string[],
  defs: Record<string, KkArg>,
  words: readonly string[],
  globals: Globals,
): { canonical: string[]; lists: Record<string, string[]> } {
  const usage = usageHint(path);
  const flags: Flag[] = [];
  const positionals: string[] = [];
  for (let i = 0; i < words.length; i += 1) {
    const word = words[i]!;
    if (word === "--") {
      positionals.push(...words.slice(i + 1));
      break;
    }
    if (word === "-" || !word.startsWith("-")) {
      positionals.push(word);
      continue;
    }
    const global = GLOBAL_FLAGS.get(word);
    if (global !== undefined) {
      globals[global] = true;
      continue;
    }
    const flag = recognise(word, defs, usage);
    flags.push(flag);
    if (flag.def.type === "boolean") {
      if (flag.value !== undefined) throw usageError(`${flag.typed} takes no value`, usage);
      continue;
    }
    if (flag.value === undefined) {
      flag.value = words[i + 1];
      i += 1;
      if (flag.value === undefined || isFlag(flag.value, defs)) throw missingValue(flag, usage);
    }
    checkEnum(flag, usage);
  }
  const lists = collect(flags, usage);
  const canonical = flags.filter((flag) => flag.def.repeat !== true).map(canonicalFlag);
  return {
    canonical: [...canonical, "--", ...checkPositionals(defs, positionals, usage)],
    lists,
  };
}

/** The definition behind `--name`, `--name=value`, `--no-name`, `-x`, `-xvalue`. */
function recognise(word: string, defs: Record<string, KkArg>, usage: string): Flag {
  const equals = word.indexOf("=");
  const typed = equals < 0 ? word : word.slice(0, equals);
  const value = equals < 0 ? undefined : word.slice(equals + 1);
  for (const [name, def] of Object.entries(defs)) {
    if (def.type === "positional") continue;
    if (typed === `--${name}`) return { name, def, typed, negated: false, value };
    if (typed === `--no-${name}` && negatable(def))
      return { name, def, typed, negated: true, value };
    const alias = aliases(def).find((a) => word.startsWith(`-${a}`) && !word.startsWith("--"));
    if (alias === undefined) continue;
    if (typed === `-${alias}`) return { name, def, typed, negated: false, value };
    if (def.type !== "boolean") {
      return { name, def, typed: `-${alias}`, negated: false, value: word.slice(alias.length + 1) };
    }
  }
  const known = [...GLOBAL_FLAGS.keys(), ...Object.entries(defs).flatMap(spellings)];
  // One letter is near every other one.
  const near = typed.startsWith("--") ? nearest(typed, known) : null;
  const meant = near === null ? "" : ` — did you mean ${near}?`;
  throw usageError(`unknown flag ${typed}${meant}`, usage);
}

function spellings([name, def]: [string, KkArg]): string[] {
  if (def.type === "positional") return [];
  const all = [`--${name}`, ...aliases(def).map((a) => `-${a}`)];
  return negatable(def) ? [...all, `--no-${name}`] : all;
}

export function aliases(def: KkArg): string[] {
  const alias = "alias" in def ? def.alias : undefined;
  return alias === undefined ? [] : Array.isArray(alias) ? alias : [alias];
}

function negatable(def: KkArg): boolean {
  return def.type === "boolean" && "negativeDescription" in def;
}

/** A value may begin with a dash, unless it is exactly a flag of this command: then one was forgotten. */
function isFlag(word: string, defs: Record<string, KkArg>): boolean {
  if (word === "--" || GLOBAL_FLAGS.has(word)) return true;
  return Object.entries(defs).flatMap(spellings).includes(word);
}

function checkEnum(flag: Flag, usage: string): void {
  const options = flag.def.type === "enum" ? (flag.def.options ?? []) : [];
  if (options.length === 0 || options.includes(flag.value ?? "")) return;
  const text = JSON.stringify(flag.value);
  throw usageError(`${flag.typed} does not accept ${text}: use ${options.join(" or ")}`, usage);
}

function collect(flags: readonly Flag[], usage: string): Record<string, string[]> {
  const lists: Record<string, string[]> = {};
  const seen = new Set<string>();
  for (const flag of flags) {
    if (flag.def.repeat === true) (lists[flag.name] ??= []).push(flag.value ?? "");
    else if (seen.has(flag.name)) throw usageError(`${flag.typed} is given twice`, usage);
    seen.add(flag.name);
  }
  return lists;
}

function canonicalFlag(flag: Flag): string {
  if (flag.def.type === "boolean") return flag.negated ? `--no-${flag.name}` : `--${flag.name}`;
  return `--${flag.name}=${flag.value ?? ""}`;
}

function checkPositionals(
  defs: Record<string, KkArg>,
  given: readonly string[],
  usage: string,
): readonly string[] {
  const wanted = Object.entries(defs).filter(([, def]) => def.type === "positional");
  const extra = given[wanted.length];
  if (extra !== undefined) throw usageError(`unexpected argument ${JSON.stringify(extra)}`, usage);
  wanted.forEach(([name, def], i) => {
    if (given[i] === "") throw usageError(`<${name}> must not be empty`, usage);
    if (given[i] === undefined && def.required !== false)
      throw usageError(`missing <${name}>`, usage);
  });
  return given;
}

function missingValue(flag: Flag, usage: string): KikiError {
  const literal =
    flag.value === undefined ? "" : ` (to pass ${flag.value} itself: ${flag.typed}=…)`;
  return usageError(`${flag.typed} needs a value${literal}`, usage);
}

function unknownCommand(path: readonly string[], word: string, known: string[]): KikiError {
  const near = nearest(word, known);
  const meant = near === null ? "" : ` — did you mean ${["kk", ...path, near].join(" ")}?`;
  const name = [...path, word].join(" ");
  return usageError(`unknown command ${JSON.stringify(name)}${meant}`, "kk help");
}

function missingSubCommand(path: readonly string[], known: readonly string[]): KikiError {
  return usageError(`kk ${path.join(" ")} needs one of: ${known.join(", ")}`, usageHint(path));
}

function usageError(message: string, hint: string): KikiError {
  return fail("usage", "usage", message, hint);
}

function usageHint(path: readonly string[]): string {
  return path.length === 0 ? "kk help" : `kk help ${path.join(" ")}`;
}

/** Names a person may type; hidden ones (`__pane`) are never suggested. */
export function visibleNames(subCommands: SubCommandsDef): string[] {
  return Object.keys(subCommands).filter((name) => !name.startsWith("__"));
}

/** citty lets every part of a definition be a value, a promise or a function of either. */
export async function resolved<T>(value: T | Promise<T> | (() => T | Promise<T>)): Promise<T> {
  return typeof value === "function" ? (value as () => T | Promise<T>)() : value;
}

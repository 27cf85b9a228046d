/**
 * Trees of the fake jj. A tree is resolved (one term) or conflicted (terms add, remove, add, …), as in jj: a later
 * merge in which terms cancel out resolves it again.
 */
import { conflictMarkers, mergeText } from "./text-merge.ts";

/** `f:` file, `x:` executable file, `l:` symlink, followed by the text or the target. */
export type Entry = string;
/** Path → entry; immutable once made. */
export type Terms = ReadonlyMap<string, Entry>;

export interface Tree {
  terms: readonly Terms[];
  /** One per term of a conflicted tree: jj compares them as well when it decides whether files are stale. */
  labels: readonly string[];
}

/** Value of a path: an entry, "" for absent, or the sides of a conflict. */
export type Value = Entry | { adds: Entry[]; removes: Entry[] };

export const EMPTY_TREE: Tree = { terms: [new Map()], labels: [] };

export function resolved(entries: Iterable<[string, Entry]>): Tree {
  return { terms: [new Map(entries)], labels: [] };
}

export function isConflicted(tree: Tree): boolean {
  return tree.terms.length > 1;
}

export function sameTree(a: Tree, b: Tree): boolean {
  return (
    a === b ||
    (a.terms.length === b.terms.length &&
      a.terms.every((term, at) => sameTerms(term, b.terms[at]!)) &&
      a.labels.length === b.labels.length &&
      a.labels.every((label, at) => label === b.labels[at]))
  );
}

/** Every path that any term has, sorted. */
export function pathsOf(tree: Tree): string[] {
  const [only] = tree.terms;
  if (tree.terms.length === 1) return [...only!.keys()].sort();
  return [...new Set(tree.terms.flatMap((term) => [...term.keys()]))].sort();
}

export function valueAt(tree: Tree, path: string): Value {
  if (tree.terms.length === 1) return tree.terms[0]!.get(path) ?? "";
  return resolveValue(tree.terms.map((term) => term.get(path) ?? ""));
}

/** What lies on disk for a value; null: nothing. */
export function materialised(value: Value): Entry | null {
  if (typeof value === "string") return value === "" ? null : value;
  return `f:${conflictMarkers(value.adds.map(textOf), value.removes.map(textOf))}`;
}

export function conflictedPaths(tree: Tree): string[] {
  if (!isConflicted(tree)) return [];
  return pathsOf(tree).filter((path) => typeof valueAt(tree, path) !== "string");
}

/**
 * Paths that are not the same on disk, in the order of their components; a file that takes a folder's place comes after
 * what is in that (jj 0.46).
 */
export function writingOrder(from: Tree, to: Tree): string[] {
  const entry = (tree: Tree, path: string): Entry | null => materialised(valueAt(tree, path));
  const paths = [...new Set([...pathsOf(from), ...pathsOf(to)])];
  const key = (path: string): string[] => {
    const takesFolder = entry(from, path) === null;
    return [...path.split("/"), ...(takesFolder ? ["\u{10ffff}"] : [])];
  };
  return paths
    .filter((path) => entry(from, path) !== entry(to, path))
    .map((path) => ({ path, key: key(path) }))
    .sort((a, b) => {
      const at = a.key.findIndex((part, n) => part !== b.key[n]);
      if (at < 0) return a.key.length - b.key.length;
      return b.key[at] === undefined || a.key[at]! > b.key[at] ? 1 : -1;
    })
    .map(({ path }) => path);
}

/** The tree with some paths set (`null`: removed); a conflict that nothing is left of resolves. */
export function withPaths(tree: Tree, changes: ReadonlyMap<string, Entry | null>): Tree {
  if (changes.size === 0) return tree;
  const terms = tree.terms.map((term) => {
    const changed = new Map(term);
    for (const [path, entry] of changes) {
      if (entry === null) changed.delete(path);
      else changed.set(path, entry);
    }
    return changed;
  });
  return resolveTerms(terms, tree.labels);
}

/** `labels` name the three for conflicts that arise here. */
export function mergeTrees(
  a: Tree,
  base: Tree,
  b: Tree,
  labels: readonly [string, string, string],
): Tree {
  // jj keeps the tree, labels and all, where the move changes nothing below it.
  if (sameTree(a, base)) return b;
  if (sameTree(b, base)) return a;
  const named = (tree: Tree, label: string): readonly string[] =>
    isConflicted(tree) ? tree.labels : [label];
  // A conflicted base counts with its signs turned: flattening keeps add and remove alternating.
  return resolveTerms(
    [...a.terms, ...base.terms, ...b.terms],
    [...named(a, labels[0]), ...named(base, labels[1]), ...named(b, labels[2])],
  );
}

function sameTerms(a: Terms, b: Terms): boolean {
  if (a === b) return true;
  if (a.size !== b.size) return false;
  for (const [path, entry] of a) if (b.get(path) !== entry) return false;
  return true;
}

function textOf(entry: Entry): string {
  return entry.slice(2);
}

function resolveTerms(terms: readonly Terms[], labels: readonly string[]): Tree {
  if (terms.length === 1) return { terms, labels: [] };
  const settled = new Map<string, Entry>();
  const open: string[] = [];
  for (const path of pathsOf({ terms, labels })) {
    const value = resolveValue(terms.map((term) => term.get(path) ?? ""));
    if (typeof value !== "string") open.push(path);
    else if (value !== "") settled.set(path, value);
  }
  if (open.length === 0) return { terms: [settled], labels: [] };
  const filled = terms.map((term) => {
    const whole = new Map(settled);
    for (const path of open) {
      const entry = term.get(path);
      if (entry !== undefined) whole.set(path, entry);
    }
    return whole;
  });
  return simplify(filled, labels);
}

/** Drops pairs of an equal add and remove. */
function simplify(terms: readonly Terms[], labels: readonly string[]): Tree {
  const adds = terms.flatMap((term, at) => (at % 2 === 0 ? [{ term, label: labels[at]! }] : []));
  const removes = terms.flatMap((term, at) => (at % 2 === 1 ? [{ term, label: labels[at]! }] : []));
  for (let at = 0; at < removes.length;) {
    const pair = adds.findIndex(({ term }) => sameTerms(term, removes[at]!.term));
    if (pair < 0) at += 1;
    else {
      adds.splice(pair, 1);
      removes.splice(at, 1);
    }
  }
  const both = adds.flatMap((add, at) => (at === 0 ? [add] : [removes[at - 1]!, add]));
  return {
    terms: both.map(({ term }) => term),
    labels: both.length === 1 ? [] : both.map(({ label }) => label),
  };
}

/** jj's rules: terms cancel, the same change on every side is accepted, then files are merged by lines. */
function resolveValue(values: readonly Entry[]): Value {
  const adds: Entry[] = [];
  const removes = values.filter((_, at) => at % 2 === 1);
  for (const add of values.filter((_, at) => at % 2 === 0)) {
    const pair = removes.indexOf(add);
    if (pair < 0) adds.push(add);
    else removes.splice(pair, 1);
  }
  const [first] = adds;
  const sameChange =
    adds.every((add) => add === first) && removes.every((remove) => remove === removes[0]);
  if (first !== undefined && sameChange) return first;
  if (adds.length === 2 && removes.length === 1) {
    const merged = mergeFiles(removes[0]!, adds[0]!, adds[1]!);
    if (merged !== null) return merged;
  }
  return { adds, removes };
}

function mergeFiles(base: Entry, a: Entry, b: Entry): Entry | null {
  if ([base, a, b].some((entry) => entry === "" || entry.startsWith("l:"))) return null;
  const kinds = { base: base[0]!, a: a[0]!, b: b[0]! };
  const kind = kinds.a === kinds.base ? kinds.b : kinds.a;
  const text = mergeText(textOf(base), textOf(a), textOf(b));
  return text === null ? null : `${kind}:${text}`;
}

/**
 * Reader for the protobuf files jj 0.46 keeps: a working copy's `checkout` and `tree_state`, and the operation
 * store's operations and views. Field numbers of a protobuf message never change meaning; fields that are not known
 * are skipped. Everything throws on bytes that are no such message.
 */
import type { CommitId, OpId } from "../../core/ids.ts";

/** `.jj/working_copy/checkout`: which operation the files were last written for, and whose workspace this is. */
export interface Checkout {
  op: OpId;
  workspace: string;
}

export const FILE_NORMAL = 0;
export const FILE_SYMLINK = 1;
export const FILE_EXECUTABLE = 2;
export const FILE_SUBMODULE = 4;

/** One tracked file as jj last saw it. No content hash is stored. */
export interface FileState {
  path: string;
  /** Milliseconds since the epoch, rounded down. */
  mtime: number;
  size: number;
  /** One of the `FILE_…` constants. */
  type: number;
}

/** `.jj/working_copy/tree_state`. */
export interface TreeState {
  /** One tree, or `add, remove, add, …` when conflicted. */
  trees: string[];
  labels: string[];
  files: FileState[];
  /** Path prefixes that are checked out; `[""]` is everything. */
  sparse: string[];
}

export interface StoredOperation {
  view: string;
  parents: OpId[];
}

export interface StoredView {
  /** Workspace name → its `@`. */
  workspaces: Map<string, CommitId>;
  /** Workspace name → git HEAD as jj last wrote or imported it; colocated workspaces only. */
  gitHeads: Map<string, CommitId>;
}

export function parseCheckout(bytes: Uint8Array): Checkout {
  const checkout: Checkout = { op: "", workspace: "" };
  for (const field of fields(bytes)) {
    if (field.number === 2) checkout.op = hex(field.bytes);
    else if (field.number === 3) checkout.workspace = text(field.bytes);
  }
  return checkout;
}

export function parseTreeState(bytes: Uint8Array): TreeState {
  const state: TreeState = { trees: [], labels: [], files: [], sparse: [] };
  let hasSparse = false;
  for (const field of fields(bytes)) {
    if (field.number === 5) state.trees.push(hex(field.bytes));
    else if (field.number === 7) state.labels.push(text(field.bytes));
    else if (field.number === 2) state.files.push(parseFileEntry(field.bytes));
    else if (field.number === 3) {
      hasSparse = true;
      for (const inner of fields(field.bytes)) {
        if (inner.number === 1) state.sparse.push(text(inner.bytes));
      }
    }
  }
  // Files of before sparse patterns existed: everything is checked out.
  if (!hasSparse) state.sparse.push("");
  return state;
}

export function parseOperation(bytes: Uint8Array): StoredOperation {
  const operation: StoredOperation = { view: "", parents: [] };
  for (const field of fields(bytes)) {
    if (field.number === 1) operation.view = hex(field.bytes);
    else if (field.number === 2) operation.parents.push(hex(field.bytes));
  }
  return operation;
}

export function parseView(bytes: Uint8Array): StoredView {
  const view: StoredView = { workspaces: new Map(), gitHeads: new Map() };
  for (const field of fields(bytes)) {
    if (field.number === 8) {
      const [name, commit] = mapEntry(field.bytes);
      view.workspaces.set(name, hex(commit));
    } else if (field.number === 13) {
      const [name, target] = mapEntry(field.bytes);
      const commit = singleTarget(target);
      if (commit !== null) view.gitHeads.set(name, commit);
    }
  }
  return view;
}

function parseFileEntry(bytes: Uint8Array): FileState {
  const entry: FileState = { path: "", mtime: 0, size: 0, type: FILE_NORMAL };
  for (const field of fields(bytes)) {
    if (field.number === 1) entry.path = text(field.bytes);
    else if (field.number === 2) {
      for (const inner of fields(field.bytes)) {
        if (inner.number === 1) entry.mtime = Number(BigInt.asIntN(64, BigInt(inner.value)));
        else if (inner.number === 2) entry.size = Number(inner.value);
        else if (inner.number === 3) entry.type = Number(inner.value);
      }
    }
  }
  return entry;
}

/** A ref target: `1: commit`, or `3: {1: removes, 2: adds}`, each `{1: commit}`. null for a conflicted one. */
function singleTarget(bytes: Uint8Array): CommitId | null {
  let commits: string[] = [];
  for (const field of fields(bytes)) {
    if (field.number === 1) commits = [hex(field.bytes)];
    else if (field.number === 3) {
      for (const term of fields(field.bytes)) {
        if (term.number !== 2) return null;
        for (const value of fields(term.bytes)) {
          if (value.number === 1) commits.push(hex(value.bytes));
        }
      }
    }
  }
  return commits.length === 1 ? commits[0]! : null;
}

function mapEntry(bytes: Uint8Array): [key: string, value: Uint8Array] {
  let key = "";
  let value: Uint8Array = new Uint8Array();
  for (const field of fields(bytes)) {
    if (field.number === 1) key = text(field.bytes);
    else if (field.number === 2) value = field.bytes;
  }
  return [key, value];
}

interface Field {
  number: number;
  /** Of a varint field. A number where it is exact, else a bigint. */
  value: number | bigint;
  /** Of a length-delimited field. */
  bytes: Uint8Array;
}

const NOTHING = new Uint8Array();

function* fields(bytes: Uint8Array): Generator<Field> {
  let at = 0;
  const varint = (): number | bigint => {
    // Plain numbers up to 2^49: a tree state has several varints per file.
    let value = 0;
    let factor = 1;
    for (const start = at; ;) {
      const byte = bytes[at];
      if (byte === undefined) throw new Error("protobuf: cut short");
      at += 1;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      factor *= 128;
      if (at - start >= 7) {
        at = start;
        return bigVarint();
      }
    }
  };
  const bigVarint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = bytes[at];
      if (byte === undefined) throw new Error("protobuf: cut short");
      at += 1;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw new Error("protobuf: varint too long");
  };
  while (at < bytes.length) {
    const key = Number(varint());
    const number = Math.floor(key / 8);
    switch (key % 8) {
      case 0:
        yield { number, value: varint(), bytes: NOTHING };
        break;
      case 1:
        at += 8;
        break;
      case 2: {
        const length = Number(varint());
        if (at + length > bytes.length) throw new Error("protobuf: cut short");
        yield { number, value: 0, bytes: bytes.subarray(at, at + length) };
        at += length;
        break;
      }
      case 5:
        at += 4;
        break;
      default:
        throw new Error(`protobuf: wire type ${key % 8}`);
    }
  }
}

const decoder = new TextDecoder("utf-8", { fatal: true });

function text(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}

/**
 * The only durable writer, and the few reads that go with it. Synchronous but for `writeNew`: the places that use it
 * depend on the order of their effects (marker before tuple, file before row), and a file here is small.
 */
import {
  appendFileSync,
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
  writeSync,
  type Stats,
} from "node:fs";
import { createHash, randomBytes } from "node:crypto";
import { link, open } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

const PIECE_BYTES = 1024 * 1024;

/**
 * Replaces `path` by `bytes` so that a crash leaves the old or the new content: temporary file in the same folder,
 * fsync, rename, fsync of the folder. The mode is set before the file is visible under its name.
 */
export function writeDurable(path: string, bytes: string | Uint8Array, mode: number): void {
  const folder = dirname(path);
  const temporary = join(folder, `.${basename(path)}.${randomBytes(6).toString("hex")}.tmp`);
  try {
    // "wx": never through a symlink or over a file somebody else put there.
    const fd = openSync(temporary, "wx", mode);
    try {
      writeAll(fd, typeof bytes === "string" ? Buffer.from(bytes) : bytes);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    chmodSync(temporary, mode); // the mode given to open is narrowed by the umask
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  syncFolder(folder);
}

/** Puts a symlink in place by rename: whoever follows `path` finds the old target or the new one, never nothing. */
export function replaceLink(path: string, target: string): void {
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString("hex")}.tmp`);
  symlinkSync(target, temporary);
  try {
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

/** Removes a file and makes the removal durable; one that is gone already is success. */
export function removeDurable(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (isMissing(error)) return;
    throw error;
  }
  syncFolder(dirname(path));
}

/** Moves a folder within its file system; nothing happens when it is not there. */
export function moveAway(from: string, to: string): void {
  if (!existsSync(from)) return;
  renameSync(from, to);
  syncFolder(dirname(from));
}

/** Makes the folder and its missing parents, each with `mode`; an existing folder keeps its mode. */
export function ensureDir(path: string, mode = 0o700): void {
  mkdirSync(path, { recursive: true, mode });
}

/** Appends one line (a trailing newline is added). Not durable: for logs. */
export function appendLine(path: string, line: string, mode = 0o600): void {
  appendFileSync(path, line.endsWith("\n") ? line : `${line}\n`, { mode });
}

/** The file's text, or null when there is none. Other failures throw. */
export function readText(path: string): string | null {
  return readBytes(path)?.toString("utf8") ?? null;
}

/** The file's bytes, or null when there is none. Other failures throw. */
export function readBytes(path: string): Buffer | null {
  try {
    return readFileSync(path);
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** Names in a folder, sorted; empty when there is no such folder. */
export function listDir(path: string): string[] {
  try {
    return readdirSync(path).sort();
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/**
 * Durable byte copy, parents made; a symlink stays a symlink, an executable file executable. Returns the SHA-256 of the
 * content (of a symlink's target text), or null when there is nothing to copy (gone, or not a file). `from` may be the
 * raw bytes of a path that is no text.
 */
export function copyInto(from: string | Uint8Array, to: string): string | null {
  const source = typeof from === "string" ? from : Buffer.from(from);
  const stat = fileAt(source);
  if (stat === null) return null;
  mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
  if (!stat.isSymbolicLink()) return copyFile(source, to, 0o600 | (stat.mode & 0o100));
  const target = readlinkSync(source, { encoding: "buffer" });
  rmSync(to, { force: true });
  symlinkSync(target, to);
  syncFolder(dirname(to));
  return createHash("sha256").update(target).digest("hex");
}

/** In pieces: what an agent leaves lying about may be larger than memory. */
function copyFile(from: string | Buffer, to: string, mode: number): string {
  const temporary = join(dirname(to), `.${randomBytes(6).toString("hex")}.tmp`);
  const hash = createHash("sha256");
  try {
    const fd = openSync(temporary, "wx", mode);
    try {
      for (const piece of piecesOf(from)) {
        hash.update(piece);
        writeAll(fd, piece);
      }
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    chmodSync(temporary, mode);
    renameSync(temporary, to);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  syncFolder(dirname(to));
  return hash.digest("hex");
}

function* piecesOf(path: string | Buffer): Generator<Uint8Array> {
  const piece = Buffer.alloc(PIECE_BYTES);
  const fd = openSync(path, "r");
  try {
    for (;;) {
      const length = readSync(fd, piece, 0, PIECE_BYTES, null);
      if (length === 0) return;
      yield piece.subarray(0, length);
    }
  } finally {
    closeSync(fd);
  }
}

/** SHA-256 of a file's bytes, or of a symlink's target; null when there is neither. */
export function sha256(path: string): string | null {
  const stat = fileAt(path);
  if (stat === null) return null;
  const hash = createHash("sha256");
  if (stat.isSymbolicLink()) hash.update(readlinkSync(path, { encoding: "buffer" }));
  else for (const piece of piecesOf(path)) hash.update(piece);
  return hash.digest("hex");
}

/** null for what is gone, or is neither file nor symlink. */
function fileAt(path: string | Buffer): Stats | null {
  try {
    const stat = lstatSync(path);
    return stat.isFile() || stat.isSymbolicLink() ? stat : null;
  } catch (error) {
    if (isMissing(error) || (error as { code?: string }).code === "ENOTDIR") return null;
    throw error;
  }
}

/** Renames a file or symlink, parents made; false when it is not there. */
export function moveFile(from: string, to: string): boolean {
  if (fileAt(from) === null) return false;
  mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
  renameSync(from, to);
  return true;
}

export function removeEmptyFolders(folder: string, root: string): void {
  for (let at = folder; at.startsWith(`${root}/`); at = dirname(at)) {
    try {
      rmdirSync(at);
    } catch (error) {
      const { code } = error as { code?: string };
      if (code === "ENOENT") continue;
      if (["ENOTEMPTY", "EEXIST", "ENOTDIR"].includes(code ?? "")) return;
      throw error;
    }
  }
}

/** A folder of kiki's own with all it holds; one that is not there is success. */
export function removeTree(path: string): void {
  rmSync(path, { recursive: true, force: true });
}

/**
 * Puts `bytes` at `path` only when nothing is there: complete or not at all, durable, `mode` exactly. False when
 * something is there already, whatever it is. `beside`: folder for the temporary file, on the same filesystem. The one
 * that is not synchronous: a copy may be large and its disk slow, and agents' hooks must not wait for either.
 */
export async function writeNew(
  path: string,
  bytes: Uint8Array,
  mode: number,
  beside: string,
): Promise<boolean> {
  const temporary = join(beside, `.kiki-${randomBytes(6).toString("hex")}.tmp`);
  try {
    const file = await open(temporary, "wx", mode);
    try {
      await file.writeFile(bytes);
      await file.chmod(mode);
      await file.sync();
    } finally {
      await file.close();
    }
    // Unlike rename, link refuses a name that is taken.
    await link(temporary, path);
    const folder = await open(dirname(path), "r");
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
    return true;
  } catch (error) {
    if ((error as { code?: string }).code === "EEXIST") return false;
    throw error;
  } finally {
    rmSync(temporary, { force: true });
  }
}

/** Keeps the newest half of a file that grew beyond `maxBytes`. A writer that appends (O_APPEND) goes on after it. */
export function keepNewest(path: string, maxBytes: number): void {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size <= maxBytes) return;
  const keep = Buffer.alloc(Math.floor(maxBytes / 2));
  const fd = openSync(path, "r+");
  try {
    readSync(fd, keep, 0, keep.length, size - keep.length);
    ftruncateSync(fd, 0);
  } finally {
    closeSync(fd);
  }
  appendFileSync(path, `kiki: ${size - keep.length} bytes of older output are left out here\n`);
  appendFileSync(path, keep);
}

/** Up to `bytes` from the end of a file, as text; "" when there is none. */
export function endOfFile(path: string, bytes: number): string {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size === 0) return "";
  const buffer = Buffer.alloc(Math.min(bytes, size));
  const fd = openSync(path, "r");
  try {
    const read = readSync(fd, buffer, 0, buffer.length, size - buffer.length);
    return buffer.toString("utf8", 0, read);
  } finally {
    closeSync(fd);
  }
}

/**
 * Descriptor of a new private file without a name, in the first of `folders` that takes one: it is gone when the
 * last descriptor closes. With `content`, positioned at its start.
 */
export function namelessFile(folders: readonly string[], content?: string | Uint8Array): number {
  let why = new Error("no folder given");
  for (const folder of folders) {
    const path = join(folder, `kiki-${randomBytes(12).toString("hex")}`);
    let fd: number | null = null;
    try {
      fd = openSync(path, "wx+", 0o600);
      if (content !== undefined) writeFileSync(path, content);
      unlinkSync(path);
      return fd;
    } catch (error) {
      why = error as Error;
      // A folder that is full must not get fuller with every try.
      if (fd !== null) closeSync(fd);
      rmSync(path, { force: true });
    }
  }
  throw why;
}

/** Flushes a folder's entries (renames, removals) to disk. */
export function syncFolder(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function writeAll(fd: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.byteLength;) at += writeSync(fd, bytes, at);
}

export function isMissing(error: unknown): boolean {
  const code = (error as { code?: string }).code;
  return code === "ENOENT" || code === "ENOTDIR";
}

/** When a file, not what a link leads to, was last changed in any way (ctime, whole ms of the wall clock); null: not there. */
export function changedAt(path: string): number | null {
  const stat = fileAt(path);
  return stat === null ? null : Math.floor(stat.ctimeMs);
}

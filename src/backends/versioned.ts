/** Files a person edits while the daemon runs: read again only when they are other ones. */
import { closeSync, fstatSync, openSync, readFileSync, statSync, type BigIntStats } from "node:fs";

export type VersionedRead =
  | { is: "absent" }
  /** It has the version the caller knows. */
  | { is: "same" }
  /** `version` null: changed so recently that a second change could not be told from it. */
  | { is: "read"; bytes: Uint8Array; version: string | null }
  /** `why` completes "it …". */
  | { is: "unusable"; why: string };

/** File systems with the coarsest time stamps count in seconds. */
const STAMP_GRAIN_MS = 2_000;

/**
 * The file, unless its version (device, inode, size, times) is `known`. Links are followed. Never throws, and never
 * waits: a pipe in the file's place is not opened.
 */
export function readVersioned(path: string, known: string | null, maxBytes: number): VersionedRead {
  try {
    const there = statSync(path, { bigint: true, throwIfNoEntry: false });
    if (there === undefined) return { is: "absent" };
    if (!there.isFile()) {
      return { is: "unusable", why: there.isDirectory() ? "is a folder" : "is not a file" };
    }
    if (known !== null && versionOf(there) === known) return { is: "same" };
    const fd = openSync(path, "r");
    try {
      const opened = fstatSync(fd, { bigint: true });
      if (opened.size > maxBytes) {
        return { is: "unusable", why: `is ${opened.size} bytes long; the limit is ${maxBytes}` };
      }
      const recent = Date.now() - Number(opened.mtimeMs) < STAMP_GRAIN_MS;
      return { is: "read", bytes: readFileSync(fd), version: recent ? null : versionOf(opened) };
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === "ENOENT" || code === "ENOTDIR") return { is: "absent" };
    return { is: "unusable", why: `cannot be read (${code ?? String(error)})` };
  }
}

function versionOf(stat: BigIntStats): string {
  return [stat.dev, stat.ino, stat.size, stat.mtimeNs, stat.ctimeNs].join(":");
}

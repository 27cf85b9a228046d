/** Content hashes of what lies on disk, read in bounded pieces. */
import { createHash } from "node:crypto";
import { closeSync, fstatSync, openSync, readlinkSync, readSync, type Stats } from "node:fs";

export interface ContentHash {
  /** git's id of the content as a blob (SHA-1). */
  blob: string;
  sha256: string;
}

const PIECE_BYTES = 1024 * 1024;

/** Hash of a regular file's bytes, or of a symlink's target. Throws with an errno when it cannot be read. */
export function contentHash(path: string, stat: Stats): ContentHash {
  if (stat.isSymbolicLink()) return hashOf([readlinkSync(path, { encoding: "buffer" })]);
  const fd = openSync(path, "r");
  try {
    const pieces = readPieces(fd);
    return hashOf(pieces, fstatSync(fd).size);
  } finally {
    closeSync(fd);
  }
}

function* readPieces(fd: number): Generator<Uint8Array> {
  const piece = Buffer.alloc(PIECE_BYTES);
  for (;;) {
    const length = readSync(fd, piece, 0, PIECE_BYTES, null);
    if (length === 0) return;
    yield piece.subarray(0, length);
  }
}

/** `size` is part of a blob's id; a file that changes length while it is read simply hashes to something else. */
function hashOf(pieces: Iterable<Uint8Array>, size?: number): ContentHash {
  const list = size === undefined ? [...pieces] : pieces;
  const length = size ?? (list as Uint8Array[]).reduce((sum, piece) => sum + piece.length, 0);
  const blob = createHash("sha1").update(`blob ${length}\0`);
  const sha256 = createHash("sha256");
  for (const piece of list) {
    blob.update(piece);
    sha256.update(piece);
  }
  return { blob: blob.digest("hex"), sha256: sha256.digest("hex") };
}

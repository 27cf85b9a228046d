/** Objects of a git store that lie there as files of their own, which is how jj writes them: zlib, `<type> <size>\0<body>`. */
import { join } from "node:path";
import { inflateSync } from "node:zlib";
import { readBytes } from "../files.ts";

export interface TreeRow {
  name: string;
  /** Six digits; `040000` is a tree. */
  mode: string;
  id: string;
}

const ID_BYTES = 20;

/** The body of one; null when it is not there as such a file, or is no such object: then git is to be asked. */
export function looseObject(gitDir: string, id: string, type: "commit" | "tree"): Buffer | null {
  if (!/^[0-9a-f]{40}$/.test(id)) return null;
  try {
    const packed = readBytes(join(gitDir, "objects", id.slice(0, 2), id.slice(2)));
    if (packed === null) return null;
    const object = inflateSync(packed);
    // The name is the content's: a file that is cut short, or changed, is not taken for it.
    if (new Bun.CryptoHasher("sha1").update(object).digest("hex") !== id) return null;
    const end = object.indexOf(0);
    return object.subarray(0, end).toString("latin1").startsWith(`${type} `)
      ? object.subarray(end + 1)
      : null;
  } catch {
    return null;
  }
}

/** `<mode> <name>\0<20 bytes of id>` each. */
export function parseTree(body: Buffer): TreeRow[] {
  const rows: TreeRow[] = [];
  for (let at = 0; at < body.length;) {
    const space = body.indexOf(0x20, at);
    const zero = body.indexOf(0, space);
    const end = zero + 1 + ID_BYTES;
    rows.push({
      mode: body.subarray(at, space).toString("latin1").padStart(6, "0"),
      name: body.subarray(space + 1, zero).toString("utf8"),
      id: body.subarray(zero + 1, end).toString("hex"),
    });
    at = end;
  }
  return rows;
}

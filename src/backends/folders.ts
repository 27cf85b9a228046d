/**
 * Looking at whole folders, and taking back what kiki made of them. Nothing here follows a symlink, and nothing but
 * `removeTree` removes what it was not told of by name.
 */
import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import { lstat, readdir, readFile, rm, rmdir, unlink } from "node:fs/promises";
import { join } from "node:path";

export type FolderKind = "absent" | "empty-folder" | "folder" | "other";

export async function folderKind(path: string): Promise<FolderKind> {
  const found = await lstat(path).catch(missing);
  if (found === null) return "absent";
  if (!found.isDirectory()) return "other";
  return (await readdir(path)).length === 0 ? "empty-folder" : "folder";
}

/** `<device>:<inode>` of what is at `path` itself; null when nothing is. */
export async function inodeOf(path: string): Promise<string | null> {
  const found = await lstat(path, { bigint: true }).catch(missing);
  return found === null ? null : `${found.dev}:${found.ino}`;
}

/** Device, inode, size and time of change of the file a path leads to; null when there is none. */
export function fileStamp(path: string): string | null {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? null : [found.dev, found.ino, found.size, found.mtimeNs].join(":");
}

/** Hex SHA-256 of a file; null when there is none. */
export async function fileSha256(path: string): Promise<string | null> {
  const bytes = await readFile(path).catch(missing);
  return bytes === null ? null : createHash("sha256").update(bytes).digest("hex");
}

/** Relative paths of everything below `folder` that is no folder, sorted; nothing below its entries `skip`. */
export async function listFiles(folder: string, skip: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  const visit = async (below: string): Promise<void> => {
    for (const entry of await readdir(join(folder, below), { withFileTypes: true })) {
      if (below === "" && skip.includes(entry.name)) continue;
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      if (entry.isDirectory()) await visit(path);
      else found.push(path);
    }
  };
  await visit("");
  return found.sort();
}

/**
 * Removes `files` (relative), the top-level entries `trees` with all they hold, then every folder that is empty by
 * then, `folder` last. Anything else stays, and the folders above it. True when nothing stayed.
 */
export async function removeListed(
  folder: string,
  files: readonly string[],
  trees: readonly string[],
): Promise<boolean> {
  for (const path of files) await unlink(join(folder, path)).catch(missing);
  // A folder that still holds something is somebody's: its tool entries go with it, or not at all.
  if ((await listFiles(folder, trees)).length > 0) return false;
  for (const name of trees) await rm(join(folder, name), { recursive: true, force: true });
  return removeEmptyFolders(folder);
}

/** Depth first; `rmdir` itself refuses a folder into which something came meanwhile. */
async function removeEmptyFolders(folder: string): Promise<boolean> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) await removeEmptyFolders(join(folder, entry.name));
  }
  try {
    await rmdir(folder);
    return true;
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === "ENOTEMPTY" || code === "EEXIST") return false;
    if (code === "ENOENT") return true;
    throw error;
  }
}

/** Removes a folder of kiki's own, whatever it holds. */
export async function removeTree(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true });
}

function missing(error: unknown): null {
  const { code } = error as { code?: string };
  if (code === "ENOENT" || code === "ENOTDIR") return null;
  throw error;
}

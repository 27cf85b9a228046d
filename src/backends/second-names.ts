/**
 * Second names: a hard link keeps the bytes of a workspace's file while jj replaces the file. Made, found again,
 * compared, and put back. Nothing here writes bytes: that is `files.ts`.
 */
import { linkSync, lstatSync, mkdirSync, rmSync, type BigIntStats } from "node:fs";
import { dirname, join } from "node:path";
import { isMissing } from "./files.ts";

/**
 * A second name for a file (or symlink), parents made; one that is taken is replaced. Whoever writes into the file goes
 * on writing into both; whoever replaces the first name leaves the second.
 */
export function hardLink(from: string, to: string): "linked" | "absent" | "other-device" {
  mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
  rmSync(to, { force: true });
  try {
    linkSync(from, to);
    return "linked";
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === "EXDEV") return "other-device";
    // EPERM: a folder, which has no second name.
    if (code === "ENOENT" || code === "ENOTDIR" || code === "EPERM") return "absent";
    throw error;
  }
}

/** Whether a parent of `path`, below `root`, is a symlink. */
export function isBehindLink(root: string, path: string): boolean {
  const parents = dirname(path).split("/");
  return parents.some((_, at) => {
    return bigStat(join(root, ...parents.slice(0, at + 1)))?.isSymbolicLink() === true;
  });
}

/** A second name that never replaces anything; parents as a person's tools make them. */
export function putBack(kept: string, root: string, path: string): boolean {
  const parents = dirname(path).split("/");
  try {
    // Never through a symlink.
    for (let at = 1; at <= parents.length; at += 1) {
      const folder = join(root, ...parents.slice(0, at));
      const stat = lstatSync(folder, { throwIfNoEntry: false });
      if (stat === undefined) mkdirSync(folder);
      else if (!stat.isDirectory()) return false;
    }
    linkSync(kept, join(root, path));
    return true;
  } catch (error) {
    const { code } = error as { code?: string };
    if (["ENOENT", "ENOTDIR", "EEXIST", "EPERM"].includes(code ?? "")) return false;
    throw error;
  }
}

/** A clock that stamps files may stand still for a few of its ticks, of at most 10 ms each. */
const RECENT_MS = 50;

/**
 * What changes when a file (or symlink) is written into, and when another one takes its name. Not when it gets or loses a
 * second name, as its ctime would. `recent`: the next write may leave the same. null: there is neither.
 */
export function stamp(path: string): { text: string; recent: boolean } | null {
  const stat = bigStat(path);
  if (stat === null || !(stat.isFile() || stat.isSymbolicLink())) return null;
  return {
    text: `${stat.ino}:${stat.mtimeNs}:${stat.size}`,
    recent: Date.now() - Number(stat.mtimeMs) < RECENT_MS,
  };
}

/** null also where a parent is no folder. */
function bigStat(path: string): BigIntStats | null {
  try {
    return lstatSync(path, { bigint: true });
  } catch (error) {
    if (isMissing(error) || (error as { code?: string }).code === "ENOTDIR") return null;
    throw error;
  }
}

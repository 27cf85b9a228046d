/** A folder as a comparable value: every name with type, mode, size, time and content. */
import { createHash } from "node:crypto";
import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join, relative } from "node:path";
import { runAs } from "./jj-repo.ts";

/** Relative path → what is there. Equal before and after means that nothing below `root` was written. */
export function treeOf(root: string): Record<string, string> {
  const seen: Record<string, string> = {};
  const visit = (path: string): void => {
    const stat = lstatSync(path, { bigint: true });
    let content = "";
    if (stat.isSymbolicLink()) content = readlinkSync(path);
    else if (stat.isFile()) content = createHash("sha1").update(readFileSync(path)).digest("hex");
    seen[relative(root, path) || "."] =
      `${stat.mode.toString(8)} ${stat.size} ${stat.mtimeNs} ${stat.ino} ${content}`;
    if (!stat.isDirectory()) return;
    for (const name of readdirSync(path, { encoding: "buffer" })) {
      // Names that are not UTF-8 stand in their parent's time.
      const text = name.toString("utf8");
      if (Buffer.from(text).equals(name)) visit(join(path, text));
    }
  };
  visit(root);
  return seen;
}

/** Paths that differ between two `treeOf` values. */
export function treeChanges(
  before: Record<string, string>,
  after: Record<string, string>,
): string[] {
  const paths = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...paths].filter((path) => before[path] !== after[path]).sort();
}

/** Copies a folder with every time and link as it is, so that jj takes the copy for the original. */
export async function copyTree(from: string, to: string): Promise<void> {
  const result = await runAs(
    { PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
    ["cp", "-a", from, to],
    "/",
  );
  if (result.code !== 0) throw new Error(result.stderr);
}

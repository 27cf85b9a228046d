/**
 * Templates that make jj (0.46) print one JSON value per line, and their readers. `json(self)` has no conflict,
 * empty, divergent or immutable, so objects are built field by field.
 */
import { fail } from "../../core/errors.ts";
import type { CommitId } from "../../core/ids.ts";
import type {
  BookmarkView,
  CommitRelations,
  CommitView,
  JjDiff,
  JjOperation,
  WorkspaceHead,
  WorkspaceView,
} from "../../ports/jj.ts";

function object(fields: Record<string, string>): string {
  const parts = Object.entries(fields).map(([name, value]) => `"\\"${name}\\":" ++ json(${value})`);
  return `"{" ++ ${parts.join(' ++ "," ++ ')} ++ "}\\n"`;
}

export const WORKSPACE_TEMPLATE = object({
  workspace: "name",
  // A live look at the file system, not part of the operation's view.
  root: "root",
  changeId: "target.change_id()",
  commitId: "target.commit_id()",
  parents: "target.parents().map(|p| p.commit_id())",
  conflict: "target.conflict()",
  empty: "target.empty()",
  divergent: "target.divergent()",
  immutable: "target.immutable()",
  description: "target.description().first_line()",
});

export const COMMIT_TEMPLATE = object({
  commitId: "commit_id",
  changeId: "change_id",
  parents: "parents.map(|p| p.commit_id())",
  description: "description.first_line()",
  conflict: "conflict",
  empty: "empty",
  divergent: "divergent",
  immutable: "immutable",
  hidden: "hidden",
});

/** Of a commit what no operation changes. */
export const IDENTITY_TEMPLATE = object({
  commitId: "commit_id",
  changeId: "change_id",
  parents: "parents.map(|p| p.commit_id())",
});

/** A commit, and the positions in `of` of the commits it is an ancestor of, or equal to. */
export function relationsTemplate(of: readonly CommitId[]): string {
  const behind = of.map((id, at) => `if(self.contained_in("::present(${id})"), "${at},")`);
  const list = behind.length === 0 ? '""' : behind.join(" ++ ");
  return `${COMMIT_TEMPLATE} ++ "[" ++ ${list} ++ "]\\n"`;
}

export const OPERATION_TEMPLATE = 'json(self) ++ "\\n"';
export const BOOKMARK_TEMPLATE = 'json(self) ++ "\\n"';
export const DIFF_TEMPLATE = object({ status: "status_char", path: "path" });
export const CONFLICTS_TEMPLATE = 'conflicted_files.map(|f| json(f.path()) ++ "\\n").join("")';

/** The line with the sums that ends jj's `--stat` (0.46); before it every line has a path and ` | `. */
const SUMS = /^\d+ files? changed, \d+ insertions?\(\+\), \d+ deletions?\(-\)\n/m;

/** `--stat --git`; one that was cut before its sums is all stat. */
export function parseDiff(text: string): JjDiff {
  const sums = SUMS.exec(text);
  const end = sums === null ? text.length : sums.index + sums[0].length;
  return { stat: text.slice(0, end), text: text.slice(end) };
}

export function parseWorkspaces(text: string): WorkspaceView[] {
  return jsonLines(text) as WorkspaceView[];
}

export function parseCommits(text: string): CommitView[] {
  return jsonLines(text) as CommitView[];
}

export function parseIdentities(text: string): Omit<WorkspaceHead, "workspace">[] {
  return jsonLines(text) as Omit<WorkspaceHead, "workspace">[];
}

/** Two lines per commit: the commit, then `[0,2,]`. */
export function parseRelations(text: string, of: readonly CommitId[]): CommitRelations[] {
  const rows = jsonLines(text.replaceAll(",]\n", "]\n"));
  const found: CommitRelations[] = [];
  for (let at = 0; at + 1 < rows.length; at += 2) {
    const behind = (rows[at + 1] as number[]).map((position) => of[position]!);
    found.push({ ...(rows[at] as CommitView), behind });
  }
  return found;
}

export function parseOperations(text: string): JjOperation[] {
  return (jsonLines(text) as RawOperation[]).map((raw) => ({
    id: raw.id,
    parents: raw.parents,
    description: raw.description,
    isSnapshot: raw.is_snapshot,
    workspaceName: raw.workspace_name ?? null,
    args: raw.attributes["args"] ?? "",
  }));
}

/** Local bookmarks only; rows of remotes and of deleted bookmarks are left out. */
export function parseBookmarks(text: string): BookmarkView[] {
  return (jsonLines(text) as RawBookmark[])
    .filter((row) => row.remote === undefined)
    .map((row) => ({
      name: row.name,
      // A conflicted target alternates add, remove, add.
      targets: row.target.filter((id, at): id is string => at % 2 === 0 && id !== null),
    }))
    .filter((row) => row.targets.length > 0);
}

export function parsePaths(text: string): string[] {
  return jsonLines(text) as string[];
}

export function parseChanges(text: string): { status: string; path: string }[] {
  return jsonLines(text) as { status: string; path: string }[];
}

interface RawOperation {
  id: string;
  parents: string[];
  description: string;
  is_snapshot: boolean;
  workspace_name: string | null;
  attributes: Record<string, string>;
}

interface RawBookmark {
  name: string;
  target: (string | null)[];
  remote?: string;
}

function jsonLines(text: string): unknown[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      try {
        return JSON.parse(line) as unknown;
      } catch (error) {
        throw fail(
          "failed",
          "jj-output",
          `jj printed something unexpected: ${line.slice(0, 80)} (${String(error)})`,
        );
      }
    });
}

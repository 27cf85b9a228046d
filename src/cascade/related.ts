/**
 * How commits stand to each other in the view of one operation. An operation never changes, so an answer about it stays
 * true, and the newest few for each are kept: a boundary asks again what the watcher has asked when it read the operation.
 */
import type { CommitId, OpId } from "../core/ids.ts";
import type { CommitRelations, JjRepo, RepoLocation } from "../ports/jj.ts";

/** What jj said of some commits in the view of one operation. */
export interface Related {
  /** Commits that exist, each with those of `of` that it is behind. */
  rows: ReadonlyMap<CommitId, Relation>;
  /** What was asked about. */
  ids: ReadonlySet<CommitId>;
  of: ReadonlySet<CommitId>;
}

/** Without what the configuration has a say in. */
export type Relation = Omit<CommitRelations, "immutable">;

/** Operations whose answers are kept per repository. */
const MAX_KEPT = 64;
/** Of one operation: what its interpretation, bookmarks and a boundary ask. */
const MAX_ANSWERS = 4;
/** By the object that everything which wraps one opened repository has in common: the watcher's and a boundary's are two. */
const kept = new WeakMap<RepoLocation, Map<OpId, readonly Related[]>>();

/** `known`: an earlier answer for the same operation, which may do. */
export async function related(
  jj: Pick<JjRepo, "location" | "relations">,
  op: OpId,
  ids: ReadonlySet<CommitId>,
  of: ReadonlySet<CommitId>,
  known: Related | null = null,
): Promise<Related> {
  const answers = kept.get(jj.location) ?? new Map<OpId, readonly Related[]>();
  kept.set(jj.location, answers);
  const earlier = answers.get(op) ?? [];
  for (const answer of [known, ...earlier])
    if (answer !== null && ids.isSubsetOf(answer.ids) && of.isSubsetOf(answer.of)) return answer;
  const rows = await jj.relations(op, [...ids], [...of]);
  const answer = { rows: new Map(rows.map((row) => [row.commitId, row])), ids, of };
  if (answers.size >= MAX_KEPT && !answers.has(op)) answers.delete(answers.keys().next().value!);
  answers.set(op, [answer, ...(answers.get(op) ?? [])].slice(0, MAX_ANSWERS));
  return answer;
}

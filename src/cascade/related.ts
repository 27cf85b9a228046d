/**
 * How commits stand to each other in the view of one operation. An operation never changes, so an answer about it stays
 * true, and the newest for each is kept: a boundary asks again what the watcher has asked when it read the operation.
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

/** Operations whose newest answer is kept per repository. */
const MAX_KEPT = 64;
/** By the object that everything which wraps one opened repository has in common: the watcher's and a boundary's are two. */
const kept = new WeakMap<RepoLocation, Map<OpId, Related>>();

/** `known`: an earlier answer for the same operation, which may do. */
export async function related(
  jj: Pick<JjRepo, "location" | "relations">,
  op: OpId,
  ids: ReadonlySet<CommitId>,
  of: ReadonlySet<CommitId>,
  known: Related | null = null,
): Promise<Related> {
  const answers = kept.get(jj.location) ?? new Map<OpId, Related>();
  kept.set(jj.location, answers);
  for (const answer of [known, answers.get(op) ?? null])
    if (answer !== null && ids.isSubsetOf(answer.ids) && of.isSubsetOf(answer.of)) return answer;
  const rows = await jj.relations(op, [...ids], [...of]);
  const answer = { rows: new Map(rows.map((row) => [row.commitId, row])), ids, of };
  if (answers.size >= MAX_KEPT) answers.delete(answers.keys().next().value!);
  answers.set(op, answer);
  return answer;
}

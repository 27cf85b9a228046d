/**
 * A change that jj shows several times, because two operations rewrote it side by side (jj 0.46): a rebase from below and
 * somebody's own recording, most of the time. One copy then went on from where both come from, and the other is that, moved.
 * What commits evolved from never changes, so an answer about two of them stays true.
 */
import type { CommitId, OpId } from "../core/ids.ts";
import type { JjRepo } from "../ports/jj.ts";

type Reads = Pick<JjRepo, "location" | "evolvedFrom" | "sameChange">;

/** Answers kept per repository. */
const MAX_ANSWERS = 500;
const answers = new WeakMap<object, Map<string, boolean>>();

/**
 * `extra` has nothing that `twin`, of the same change, has not: both have the same content; or `extra` is what both come
 * from, moved and nothing else, and `twin` went on from there.
 */
export async function isContained(
  jj: Reads,
  op: OpId,
  extra: CommitId,
  twin: CommitId,
): Promise<boolean> {
  const known = answers.get(jj.location) ?? new Map<string, boolean>();
  answers.set(jj.location, known);
  const question = `${extra} ${twin}`;
  const hit = known.get(question);
  if (hit !== undefined) return hit;
  const answer = await askContained(jj, op, extra, twin);
  if (known.size >= MAX_ANSWERS) known.clear();
  known.set(question, answer);
  return answer;
}

async function askContained(
  jj: Reads,
  op: OpId,
  extra: CommitId,
  twin: CommitId,
): Promise<boolean> {
  if (await jj.sameChange(op, extra, twin)) return true;
  const past = new Set(await jj.evolvedFrom(op, twin));
  const common = (await jj.evolvedFrom(op, extra)).find((commit) => past.has(commit));
  return common !== undefined && (await jj.sameChange(op, common, extra));
}

/** The copy that has all that the others have, `first` where several do; null where none does. */
export async function fullestOf(
  jj: Reads,
  op: OpId,
  copies: readonly CommitId[],
  first: CommitId,
): Promise<CommitId | null> {
  for (const full of [first, ...copies.filter((copy) => copy !== first)])
    if (await containsAll(jj, op, copies, full)) return full;
  return null;
}

/** All of `copies` are contained in `full`, which is one of them. */
export async function containsAll(
  jj: Reads,
  op: OpId,
  copies: readonly CommitId[],
  full: CommitId,
): Promise<boolean> {
  for (const copy of copies)
    if (copy !== full && !(await isContained(jj, op, copy, full))) return false;
  return true;
}

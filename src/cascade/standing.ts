/** What a child's chain stands on in one exact operation, where jj rewrote or squashed away what it was put on. */
import type { CommitId, OpId } from "../core/ids.ts";
import type { JjRepo } from "../ports/jj.ts";
import { related, type Relation } from "./related.ts";

interface Standing {
  fromBase: CommitId;
  toBase: CommitId;
  childHead: CommitId;
}

/**
 * The commit the child's chain really stands on: `fromBase` itself; or the one visible commit of the same change that
 * is an ancestor of the child's head (jj rewrote the base and evolved the child with it); or, when the base was
 * squashed away, the commit it went into, which the chain's root then stands on and which records it as a predecessor.
 * null: none of these, or several. An abandoned base went into nothing.
 */
export async function standingBase(jj: JjRepo, op: OpId, at: Standing): Promise<CommitId | null> {
  const answer = await related(jj, op, new Set([at.fromBase]), new Set([at.childHead]));
  const recorded = answer.rows.get(at.fromBase);
  if (recorded === undefined) return null;
  if (!recorded.hidden && recorded.behind.includes(at.childHead)) return at.fromBase;
  return rewrittenBase(jj, op, recorded, at);
}

/** `standingBase` where `fromBase` itself (`recorded`) is not it. */
export async function rewrittenBase(
  jj: JjRepo,
  op: OpId,
  recorded: Relation,
  { fromBase, toBase, childHead }: Standing,
): Promise<CommitId | null> {
  const once = onceOf(jj);
  const evolved = await once(`${recorded.changeId} ${childHead}`, async () => {
    const found = await jj.commits(op, `change_id(${recorded.changeId}) & ::${childHead}`);
    return found.map((c) => c.commitId);
  });
  if (evolved.length > 0) return evolved.length === 1 ? evolved[0]! : null;
  const below = await once(`${toBase} ${childHead}`, async () => {
    const roots = await jj.commits(op, `roots(${toBase}..${childHead})`);
    return roots.length === 1 ? roots[0]!.parents : [];
  });
  if (below.length !== 1) return null;
  const before = await once(below[0]!, () => jj.evolvedFrom(op, below[0]!));
  return before.includes(fromBase) ? below[0]! : null;
}

type Once = (
  question: string,
  ask: () => Promise<readonly CommitId[]>,
) => Promise<readonly CommitId[]>;

/** Answers kept per repository. */
const MAX_ANSWERS = 500;
const answers = new WeakMap<JjRepo, Map<string, readonly CommitId[]>>();

/**
 * Where a child's chain stands depends on exact commits and on nothing else: what is behind a workspace's `@` is visible
 * in every view that has it, and what a commit evolved from was recorded when it was made. In a storm the same question
 * comes with every operation.
 */
function onceOf(jj: JjRepo): Once {
  const known = answers.get(jj) ?? new Map<string, readonly CommitId[]>();
  answers.set(jj, known);
  return async (question, ask) => {
    const hit = known.get(question);
    if (hit !== undefined) return hit;
    const answer = await ask();
    if (known.size >= MAX_ANSWERS) known.clear();
    known.set(question, answer);
    return answer;
  };
}

/**
 * First lines of commit descriptions, for lists. A commit never changes, so what was read once is kept; a list costs
 * one jj process when heads have moved and none otherwise.
 */
import type { CommitId } from "../core/ids.ts";
import type { JjRepo } from "../ports/jj.ts";

/** Enough for every thread of a person; the oldest go first. */
const MAX_KEPT = 2_000;
/** A list does not wait for a slow jj: it shows nothing this time, and the answer the next. */
const MAX_WAIT_MS = 500;

export class Descriptions {
  readonly #known = new Map<CommitId, string>();
  #reading: Promise<void> = Promise.resolve();

  /** What is known of `commits` by now; missing ones read as "". Never throws. */
  async of(jj: JjRepo, commits: readonly CommitId[]): Promise<(commit: CommitId | null) => string> {
    const missing = [...new Set(commits)].filter((commit) => !this.#known.has(commit));
    if (missing.length > 0) {
      this.#reading = this.#reading.then(() => this.#read(jj, missing)).catch(() => undefined);
      await Promise.race([this.#reading, Bun.sleep(MAX_WAIT_MS)]);
    }
    return (commit) => (commit === null ? "" : (this.#known.get(commit) ?? ""));
  }

  async #read(jj: JjRepo, wanted: readonly CommitId[]): Promise<void> {
    const missing = wanted.filter((commit) => !this.#known.has(commit));
    const op = (await jj.heads())[0];
    if (op === undefined || missing.length === 0) return;
    const found = await jj.existing(op, missing);
    // A commit that jj does not have any more is not asked for again either.
    for (const commit of missing) this.#known.set(commit, "");
    for (const view of found) {
      this.#known.set(view.commitId, view.description.split("\n")[0] ?? "");
    }
    for (const commit of [...this.#known.keys()].slice(
      0,
      Math.max(0, this.#known.size - MAX_KEPT),
    )) {
      this.#known.delete(commit);
    }
  }
}

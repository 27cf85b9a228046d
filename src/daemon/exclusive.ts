/**
 * One kiki command at a time in a repository. jj itself would merge concurrent operations; a staged rebase that is
 * about to be integrated must not find an operation of kiki's own landed in between.
 */
import type { SerialQueues } from "../core/serial-queue.ts";
import type { JjRepo } from "../ports/jj.ts";

export interface ExclusiveJj {
  /** Like the repository given, each mutation waiting for its turn. Not to be used inside `exclusive`. */
  jj: JjRepo;
  /** Several mutations without one of kiki's own between them; `body` gets the repository without turns. */
  exclusive: <T>(body: (jj: JjRepo) => Promise<T>) => Promise<T>;
}

const MUTATIONS = [
  "ensureNeutral",
  "addWorkspace",
  "forgetWorkspace",
  "abandon",
  "edit",
  "pinCommit",
  "setGitHead",
  "createBookmark",
  "setBookmark",
  "deleteBookmark",
  "snapshot",
  "updateStale",
  "stageRebase",
  "integrate",
] as const satisfies readonly (keyof JjRepo)[];

/** `prepare` runs before the first mutation of this process; when it fails, so does that mutation, and the next tries again. */
export function makeExclusive(
  jj: JjRepo,
  queues: SerialQueues,
  key: string,
  prepare: (jj: JjRepo) => Promise<void>,
): ExclusiveJj {
  let prepared = false;
  const exclusive = <T>(body: (jj: JjRepo) => Promise<T>): Promise<T> =>
    queues.run(key, async () => {
      if (!prepared) await prepare(jj);
      prepared = true;
      return body(jj);
    });
  const turns: Partial<Record<keyof JjRepo, unknown>> = {};
  for (const name of MUTATIONS) {
    const mutate = jj[name] as (...args: unknown[]) => Promise<unknown>;
    turns[name] = (...args: unknown[]) => exclusive(() => mutate.apply(jj, args));
  }
  return { jj: { ...jj, ...(turns as Pick<JjRepo, (typeof MUTATIONS)[number]>) }, exclusive };
}

/**
 * One kiki command at a time in a repository. jj itself would merge concurrent operations; a staged rebase that is
 * about to be integrated must not find an operation of kiki's own landed in between.
 */
import type { SerialQueues } from "../core/serial-queue.ts";
import type { JjRepo } from "../ports/jj.ts";

/** kiki's own jj commands while an agent's processes stand still for them (harness chapter, "Stopping"). */
export const STOPPED_COMMAND_MS = 5_000;

/** How long a command may take that starts now: somebody may be standing still for it. */
export class Patience {
  readonly #ms: number;
  #stopped = 0;

  constructor(ms = STOPPED_COMMAND_MS) {
    this.#ms = ms;
  }

  /** For `JjBackend.open`. */
  readonly limit = (): number | null => (this.#stopped > 0 ? this.#ms : null);

  async during<T>(body: () => Promise<T>): Promise<T> {
    this.#stopped += 1;
    try {
      return await body();
    } finally {
      this.#stopped -= 1;
    }
  }
}

export interface ExclusiveJj {
  /** Like the repository given, each mutation waiting for its turn. Not to be used inside `exclusive`. */
  jj: JjRepo;
  /** Several mutations without one of kiki's own between them; `body` gets the repository without turns. */
  exclusive: <T>(body: (jj: JjRepo) => Promise<T>, how?: { stopped: boolean }) => Promise<T>;
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
  "mergeHeads",
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
  patience = new Patience(),
): ExclusiveJj {
  let prepared = false;
  const exclusive = <T>(
    body: (jj: JjRepo) => Promise<T>,
    { stopped } = { stopped: false },
  ): Promise<T> =>
    queues.run(key, async () => {
      if (!prepared) await prepare(jj);
      prepared = true;
      // From its turn on: what others of kiki's run before it is not ended for its sake.
      return stopped ? patience.during(() => body(jj)) : body(jj);
    });
  const turns: Partial<Record<keyof JjRepo, unknown>> = {};
  for (const name of MUTATIONS) {
    const mutate = jj[name] as (...args: unknown[]) => Promise<unknown>;
    turns[name] = (...args: unknown[]) => exclusive(() => mutate.apply(jj, args));
  }
  return { jj: { ...jj, ...(turns as Pick<JjRepo, (typeof MUTATIONS)[number]>) }, exclusive };
}

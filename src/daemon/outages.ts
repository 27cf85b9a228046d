/**
 * Hooks that cannot reach a daemon let their call pass and write a line down (`src/cmd/hook-outage.ts`). The next daemon
 * says so: one notice per thread and outage, whatever the number of lines.
 */
import { ATTENTION_OUTAGE, outageOf } from "../core/outage.ts";
import { errorLine } from "../core/errors.ts";
import { threadPaths } from "../core/paths.ts";
import { acknowledgeAttention, lastAttentionKey, raiseAttention } from "../store/attention.ts";
import { write } from "../store/db.ts";
import { allThreads } from "../store/threads.ts";
import type { Daemon, RepoRuntime } from "./runtime.ts";

/**
 * Raises what was written since the last notice, which the new one replaces. The key is the number of lines told of, so a
 * daemon that dies right after says nothing twice. A log that cannot be read is left for the next start.
 */
export function noticeOutages(daemon: Daemon, repo: RepoRuntime): void {
  const { db } = repo;
  const { clock, files } = daemon.world;
  for (const { threadId, name } of allThreads(db)) {
    const { errorLog } = threadPaths(daemon.stateDir, repo.repoId, threadId);
    try {
      const text = files.readText(errorLog);
      if (text === null) continue;
      const told = Number(lastAttentionKey(db, threadId, ATTENTION_OUTAGE) ?? 0);
      const outage = outageOf(text, told);
      if (outage === null) continue;
      const message = `"${name}": ${outage.summary} — log: ${errorLog}`;
      write(db, () => {
        acknowledgeAttention(db, threadId, ATTENTION_OUTAGE, clock.now());
        raiseAttention(db, {
          threadId,
          kind: ATTENTION_OUTAGE,
          dedupKey: `${outage.lines}`,
          message,
          loud: false,
          now: clock.now(),
        });
      });
      daemon.log.warn(message);
    } catch (error) {
      daemon.log.warn(`log of an outage ${errorLog}: ${errorLine(error)}`);
    }
  }
}

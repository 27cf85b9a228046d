/** The barrier marker: a file that says to hooks which cannot reach the daemon that a barrier is up. */
import { needsMarker } from "../core/intent.ts";
import { threadPaths } from "../core/paths.ts";
import { unresolvedIntents } from "../store/intents.ts";
import type { CascadeDeps } from "./deps.ts";
import { fileEffect } from "./moves.ts";

/** Written, durably, before the tuple commits: hooks that cannot reach the daemon look at it. */
export function ensureMarker(deps: CascadeDeps, threadId: string, intentId: string): void {
  const paths = threadPaths(deps.stateDir, deps.repoId, threadId);
  fileEffect(deps, "marker-written", () =>
    deps.files.writeDurable(paths.barrier, `${intentId}\n`, 0o600),
  );
}

/** Makes the marker what the intents say: the row is the authority, the file its projection. */
export function refreshMarker(deps: CascadeDeps, threadId: string): void {
  const needing = unresolvedIntents(deps.db, threadId).find((i) =>
    needsMarker(i.state, i.barrier !== null),
  );
  if (needing !== undefined) return ensureMarker(deps, threadId, needing.intentId);
  const { barrier } = threadPaths(deps.stateDir, deps.repoId, threadId);
  fileEffect(deps, "marker-removed", () => deps.files.removeDurable(barrier));
}

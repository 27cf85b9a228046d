/** Calls that are in flight: let through, and over by no event and no session record. */
import type { SessionRecord } from "../ports/harness.ts";
import { openCalls, resolveCall, type AdmissionRow } from "../store/admissions.ts";
import { write } from "../store/db.ts";
import { cascadeThread } from "../store/edges.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";

/** null: it cannot be read, or the harness has none. */
export function readRecord(
  deps: CascadeDeps,
  caller: HookCaller,
  path: string | null,
): SessionRecord | null {
  if (path === null) return null;
  return deps.harness(cascadeThread(deps.db, caller.threadId)!.harness).record(path);
}

/** Calls whose result the record shows are over, whatever of them runs on: that is an ordinary process of the agent. */
export function resolveRecorded(deps: CascadeDeps, caller: HookCaller): void {
  const { db, clock } = deps;
  const flying = flights(deps, caller).filter((c) => c.recordPath !== null);
  for (const path of new Set(flying.map((c) => c.recordPath!))) {
    const record = readRecord(deps, caller, path);
    const over = flying.filter((c) => c.recordPath === path && record?.outputs.has(c.toolUseId));
    if (over.length === 0) continue;
    write(db, () => {
      for (const c of over)
        resolveCall(db, caller.incarnation, c.toolUseId, "batch-closed", clock.now());
    });
  }
}

/** Calls that were let through and are not over. */
export function flights({ db }: CascadeDeps, caller: HookCaller): AdmissionRow[] {
  return openCalls(db, caller.incarnation).filter(
    (c) => c.admission === "PassThrough" && !c.resolved,
  );
}

/** People who ask `kk repair` what there is, and carry one of its plans out: at once, or when it may be stale. */
import { KikiError } from "../../src/core/errors.ts";
import type { Claim } from "../../src/core/approval.ts";
import { unresolvedIntents } from "../../src/store/intents.ts";
import type { ThreadRow } from "../../src/store/threads.ts";
import { approvalFor } from "../support/approval.ts";
import type { Random } from "../support/random.ts";
import type { World } from "./world.ts";

/** A plan that somebody has been shown. */
export interface Shown {
  threadId: string;
  id: string;
  kind: string;
}

const CALLER = { harnessExecutable: "/usr/bin/claude", env: { PATH: "/usr/bin" } };
/** Terminals keep this many plans in sight. */
const MAX_SHOWN = 4;

/** What waits for a person. */
export function troubled(w: World): ThreadRow[] {
  return w
    .threads()
    .filter(
      (t) =>
        t.lifecycle === "CreateFailed" ||
        (t.lifecycle === "Active" &&
          unresolvedIntents(w.outside, t.threadId).some(
            (i) =>
              i.exhausted ||
              i.state === "TopologyDiverged" ||
              (i.state === "RecoveryRequired" && !i.recovering),
          )),
    );
}

/** Looks, and leaves it at that for now. */
export function lookAtRepairs(w: World, thread: ThreadRow): string {
  run(w, async () => keep(w, await plansOf(w, thread.threadId)));
  return `looks at ${thread.slug}`;
}

/** A plan that was shown some time ago. */
export function applyShown(w: World, r: Random): string {
  const [shown] = w.shown.splice(r.below(w.shown.length), 1);
  run(w, () => apply(w, shown!));
  return shown!.kind;
}

/** Looks, chooses, agrees. */
export function repairNow(w: World, r: Random, thread: ThreadRow): string {
  run(w, async () => {
    const plans = await plansOf(w, thread.threadId);
    if (plans.length > 0) await apply(w, r.pick(plans));
  });
  return `repairs ${thread.slug}`;
}

async function plansOf(w: World, threadId: string): Promise<Shown[]> {
  const { plans } = await w.life!.repairs.diagnose(threadId);
  return plans.map(({ id, kind }) => ({ threadId, id, kind }));
}

function keep(w: World, plans: readonly Shown[]): void {
  w.shown.push(...plans);
  w.shown.splice(0, Math.max(0, w.shown.length - MAX_SHOWN));
}

async function apply(w: World, { threadId, id, kind }: Shown): Promise<void> {
  const life = w.life!;
  const plan = await life.repairs.plan(threadId, id, CALLER);
  const claim: Claim = approvalFor(life.db, w.fresh("approval"), w.clock.now());
  await plan.begin(claim);
  w.count(`kk repair ${kind.replace(/-[0-9a-f]{8,}$/, "")}`);
}

function run(w: World, work: () => Promise<void>): void {
  const life = w.life!;
  // A command whose daemon is gone ends with its connection.
  void work().catch((error: unknown) => {
    if (life.dead || (error as Error).name === "Killed") return;
    refused(w, "kk repair", error);
  });
}

/** A command may be refused; it never fails without a reason for people. */
export function refused(w: World, what: string, error: unknown): void {
  if (error instanceof KikiError) w.count(`${what} refused: ${error.code}`);
  else if (w.life !== null && (error as Error).name !== "Killed")
    w.unexpected(`${what}: ${(error as Error).stack ?? String(error)}`);
}

/** Operations of the registry that an approval is spent on: begun by a request, or gone on with at boot. */
import { runApproved, type ApprovedEnd, type ApprovedWork } from "../authority/approved-run.ts";
import type { Grant } from "../authority/broker.ts";
import { fail } from "../core/errors.ts";
import {
  approvedOperation,
  openApprovedOperations,
  type ApprovalStore,
  type ApprovedOperation,
} from "../store/approvals.ts";
import { approvedSteps } from "../store/approved-steps.ts";
import { write } from "../store/db.ts";
import type { RepoRow } from "../store/repos.ts";
import { registerWork, registered } from "./register.ts";
import type { Daemon } from "./runtime.ts";
import { unregisterWork, type UnregisterArgs } from "./unregister.ts";

type RegistryMethod = "RegisterRepo" | "UnregisterRepo";
type Work = ApprovedWork & { row: RepoRow };

function storeOf(daemon: Daemon): ApprovalStore {
  return { db: daemon.userDb, prefix: "user_" };
}

/** Claims and runs it; called again for an operation that has begun, goes on with that one. Throws what went wrong. */
export async function carryOut(
  daemon: Daemon,
  method: RegistryMethod,
  { grant, digest }: { grant: Grant; digest: string },
): Promise<{ row: RepoRow; outcome: unknown }> {
  const at = storeOf(daemon);
  const operationId = grant.begun ?? daemon.world.ids.uuid();
  if (grant.begun === null) {
    write(at.db, () => grant.claim(operationId, { digest, lifecycle: false }));
  }
  const { work, end } = await run(daemon, approvedOperation(at, operationId)!);
  if (end.state === "Completed") return { row: work.row, outcome: end.outcome };
  if (end.thrown !== null) throw end.thrown;
  const code = end.state === "Failed" ? "operation-failed" : "outcome-unknown";
  throw fail("failed", code, `${method}: ${end.error ?? end.state}`, "kk doctor");
}

/** What an earlier daemon had begun. One that fails is logged and over; nothing else is begun. */
export async function resumeApprovedOperations(daemon: Daemon): Promise<void> {
  for (const op of openApprovedOperations(storeOf(daemon))) {
    const what = `${op.method} ${op.operationId}`;
    try {
      const { work, end } = await run(daemon, op);
      daemon.log.info(`${what}, left by an earlier daemon: ${end.state}`);
      if (end.state === "Completed" && op.method === "RegisterRepo") {
        await registered(daemon, work.row);
      }
    } catch (error) {
      daemon.log.error(`${what} does not go on`, error);
    }
  }
}

async function run(
  daemon: Daemon,
  op: ApprovedOperation,
): Promise<{ work: Work; end: ApprovedEnd }> {
  const at = storeOf(daemon);
  const work = await workOf(daemon, op);
  const { log, world } = daemon;
  const deps = { at, now: daemon.steadyNow, log, crash: world.crash };
  return { work, end: await runApproved(deps, op.operationId, work) };
}

function workOf(daemon: Daemon, op: ApprovedOperation): Promise<Work> {
  const [first] = approvedSteps(storeOf(daemon), op.operationId);
  const identity = (first?.identity ?? null) as RepoRow | null;
  const args = JSON.parse(op.args) as unknown;
  switch (op.method as RegistryMethod) {
    case "RegisterRepo":
      return registerWork(daemon, op.operationId, { args: args as { folder: string }, identity });
    case "UnregisterRepo":
      return unregisterWork(daemon, op.operationId, { args: args as UnregisterArgs, identity });
  }
}

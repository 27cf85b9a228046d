/** Operations of the registry that an approval is spent on: begun by a request, or gone on with at boot. */
import {
  beginApproved,
  runApproved,
  type ApprovedEnd,
  type ApprovedWork,
} from "../authority/approved-run.ts";
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
import { repoById, type RepoRow } from "../store/repos.ts";
import { registerWork, registered } from "./register.ts";
import { openRepo, startRepo } from "./repos.ts";
import type { Daemon } from "./runtime.ts";
import { unregisterWork, type UnregisterArgs } from "./unregister.ts";

type RegistryMethod = "RegisterRepo" | "UnregisterRepo";
type Work = ApprovedWork & { row: RepoRow };

function storeOf(daemon: Daemon): ApprovalStore {
  return { db: daemon.userDb, prefix: "user_" };
}

/** An approval and what it is spent on, exactly as it was planned. */
export interface Spending {
  grant: Grant;
  digest: string;
  /** What the plan was about. */
  rowFor: (operationId: string) => RepoRow;
  /** Looked at once more together with the claim; throws why it may not be done any more. */
  check?: () => void;
}

/**
 * Claims the approval and runs it. What it is about is recorded with the claim, and nothing else of this process has a
 * turn between the two. Throws what went wrong.
 */
export async function carryOut(
  daemon: Daemon,
  method: RegistryMethod,
  { grant, digest, rowFor, check }: Spending,
  args: object,
): Promise<{ row: RepoRow; outcome: unknown }> {
  const at = storeOf(daemon);
  const operationId = daemon.world.ids.uuid();
  const work = workOf(daemon, { method, operationId, args }, rowFor(operationId));
  write(at.db, () => {
    check?.();
    grant.claim(operationId, { digest, lifecycle: false });
    beginApproved(at, operationId, work);
  });
  return ended(daemon, method, work, await run(daemon, operationId, work));
}

/** The same call again, whose operation has begun and not ended: goes on with that one. */
export async function goOn(
  daemon: Daemon,
  method: RegistryMethod,
  operationId: string,
): Promise<{ row: RepoRow; outcome: unknown }> {
  const work = begunWork(daemon, approvedOperation(storeOf(daemon), operationId)!);
  return ended(daemon, method, work, await run(daemon, operationId, work));
}

async function ended(
  daemon: Daemon,
  method: RegistryMethod,
  work: Work,
  end: ApprovedEnd,
): Promise<{ row: RepoRow; outcome: unknown }> {
  if (await openAgain(daemon, work, end)) startRepo(daemon, work.row.repoId);
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
      const work = begunWork(daemon, op);
      const end = await run(daemon, op.operationId, work);
      daemon.log.info(`${what}, left by an earlier daemon: ${end.state}`);
      await openAgain(daemon, work, end);
      if (end.state === "Completed" && op.method === "RegisterRepo") {
        await registered(daemon, work.row);
      }
    } catch (error) {
      daemon.log.error(`${what} does not go on`, error);
    }
  }
}

function run(daemon: Daemon, operationId: string, work: Work): Promise<ApprovedEnd> {
  const { log, world } = daemon;
  const deps = { at: storeOf(daemon), now: daemon.steadyNow, log, crash: world.crash };
  return runApproved(deps, operationId, work);
}

/** A repository that could not be forgotten was closed for it, and is served as before. */
async function openAgain(daemon: Daemon, { row }: Work, end: ApprovedEnd): Promise<boolean> {
  const gone = repoById(daemon.userDb, row.repoId) === null;
  if (end.state === "Completed" || gone || daemon.repos.has(row.repoId)) return false;
  return (await openRepo(daemon, row)) !== null;
}

/** Never found out anew: what a folder led to when a person agreed is recorded, what it leads to now is not meant. */
function begunWork(daemon: Daemon, op: ApprovedOperation): Work {
  const [first] = approvedSteps(storeOf(daemon), op.operationId);
  if (first?.identity == null) throw new Error(`nothing says what ${op.operationId} is about`);
  const { method, operationId } = op;
  const args = JSON.parse(op.args) as object;
  const begun = { method: method as RegistryMethod, operationId, args };
  return workOf(daemon, begun, first.identity as RepoRow);
}

function workOf(
  daemon: Daemon,
  op: { method: RegistryMethod; operationId: string; args: object },
  row: RepoRow,
): Work {
  switch (op.method) {
    case "RegisterRepo":
      return registerWork(daemon, row);
    case "UnregisterRepo": {
      const { keepState } = op.args as UnregisterArgs;
      return unregisterWork(daemon, op.operationId, { keepState, row });
    }
  }
}

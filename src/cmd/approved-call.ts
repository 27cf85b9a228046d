/**
 * A consequential call: plan, a person's yes, and exactly that. The daemon may end and be started again at any of these
 * moments. Planning again changes nothing, a challenge outlives its daemon, and a call whose answer was lost finds what
 * it had begun.
 */
import { fail, KikiError } from "../core/errors.ts";
import type { Client } from "../rpc/client.ts";
import type { Approvable } from "../rpc/contract/approvals.ts";
import type { Input, MethodName, Output } from "../rpc/contract/methods.ts";
import type { Plan } from "../rpc/contract/types.ts";
import { ask, isYes, printPlan, refusalOf } from "./approve.ts";
import { connect, type Connection } from "./connect.ts";
import { note } from "./out.ts";
import { enrolPresenter, lostPresenter, presenterClient } from "./presenter-client.ts";
import { endInterrupted, openTerminal, type Terminal } from "./terminal.ts";

/** A plan reads the repository; a slow jj may take its time. */
const TIMEOUT_MS = 120_000;
/** Somebody who said no waits for nothing. */
const CANCEL_TIMEOUT_MS = 2_000;
/** Plans shown in a row before a repository that never stands still is reported. */
const MAX_PLANS = 5;
/** A daemon that keeps dying is reported. */
const MAX_RECONNECTS = 5;

/** Refused before anything was begun, or nobody there to say: the next daemon is asked the same. */
const AWAY: ReadonlySet<string> = new Set(["daemon-unreachable", "daemon-stopping"]);

type Approved = Approvable["method"];
/** What is asked for, without the approval that it may come with. */
export type Request<M extends Approved> = Omit<Input<M>, "approval">;

export interface Asking {
  /** What is asked for in one line, below the plan. */
  asked: string;
  /** A plan that nobody can be asked about is printed as JSON. */
  json: boolean;
}

/** Where the yes comes from; tests give another one. */
export interface Desk {
  pid: number;
  terminal(): Terminal | null;
  presenter(terminal: Terminal): Client | null;
  enrol(): Promise<void>;
  /** Makes sure that a daemon runs again. */
  wake(): Promise<void>;
  /** What to throw when the daemon does not take the presenter for one. */
  lost(cause?: unknown): KikiError;
  /** A remark for the person. */
  note(text: string): void;
  /** Ends this process as Ctrl-C ends one. */
  interrupted(): Promise<never>;
}

/** Why a plan is put to the person once more, instead of ending the command. */
const AGAIN: Readonly<Record<string, string>> = {
  "plan-changed": "something changed while you were reading; this is the plan now:",
  "approval-expired": "your yes came to nothing in time; this is the plan now:",
  "challenge-expired": "the question was open for too long; this is the plan now:",
  "challenge-unknown": "the daemon does not know that question any more; this is the plan now:",
  // A thread's credential is replaced when its agent ends, which it may do while somebody reads.
  "approval-other-caller": "the agent of this thread has ended meanwhile; this is the plan now:",
  // The daemon went away with the answer to a yes that it had taken.
  "challenge-confirmed": "the daemon's answer to your yes was lost; this is the plan now:",
};

/**
 * What is done is exactly what was agreed to. Throws KikiError of kind approval: `approval-refused` when the person
 * said no, the daemon's own refusals, or `approval-no-terminal`; the plan is printed where nobody could be asked.
 */
export async function approvedCall<M extends Approved>(
  { client, stateDir }: Pick<Connection, "client" | "stateDir">,
  method: M,
  request: Request<M>,
  asking: Asking,
  desk: Desk = deskOf(stateDir),
): Promise<Output<M>> {
  for (let round = 1; ; round += 1) {
    try {
      const approval = await approvalFor(client, method, request, asking, desk);
      return await callAgain(client, method, { ...request, approval } as Input<M>, desk);
    } catch (error) {
      const why = error instanceof KikiError ? AGAIN[error.code] : undefined;
      if (why === undefined || round === MAX_PLANS) throw error;
      desk.note(why);
    }
  }
}

/** A read that is free for the caller where it can be, and a person's decision where it is not. */
export async function readOrAsk<M extends Approved>(
  connection: Pick<Connection, "client" | "stateDir">,
  method: M,
  request: Request<M>,
  asking: Asking,
  desk?: Desk,
): Promise<Output<M>> {
  try {
    return await connection.client.call(method, request as Input<M>, { timeoutMs: TIMEOUT_MS });
  } catch (error) {
    const needed = error instanceof KikiError && error.code === "approval-needed";
    if (!needed) throw error;
    return approvedCall(connection, method, request, asking, desk);
  }
}

/** Shows the plan, asks, and returns the approval that the yes has issued. */
async function approvalFor<M extends Approved>(
  client: Client,
  method: M,
  args: Request<M>,
  asking: Asking,
  desk: Desk,
): Promise<string> {
  const terminal = desk.terminal();
  const shownOn = terminal === null ? {} : { columns: terminal.columns };
  // Of the right arguments for its method: the two are tied together by M.
  const begin = { method, args, clientPid: desk.pid, ...shownOn } as unknown;
  try {
    const { plan, presenter } = await planned(
      client,
      begin as Input<"BeginApproval">,
      terminal,
      desk,
    );
    if (terminal === null || presenter === null || plan.challenge === null) {
      printPlan(plan, asking.json);
      throw refusalOf(plan);
    }
    const { challengeId, repoId, nonce } = plan.challenge;
    const challenge = { challengeId, repoId, nonce, clientPid: desk.pid };
    const said = await ask(terminal, plan, asking.asked);
    if (said.kind === "line" && isYes(said.text)) return await confirm(presenter, challenge, desk);
    await cancel(presenter, challenge);
    if (said.kind === "interrupted") return await desk.interrupted();
    throw fail("approval", "approval-refused", "not approved: nothing was changed");
  } finally {
    terminal?.close();
  }
}

/**
 * The plan, and who can confirm it: null where nobody can. Enrols the presenter when there has never been one, and
 * only after the daemon has found nothing else against this place and these arguments.
 */
async function planned(
  client: Client,
  begin: Input<"BeginApproval">,
  terminal: Terminal | null,
  desk: Desk,
): Promise<{ plan: Plan; presenter: Client | null }> {
  for (let enrolled = false; ; enrolled = true) {
    const plan = await callAgain(client, "BeginApproval", begin, desk);
    const missing = plan.refusal?.code === "presenter-missing";
    if (terminal === null || (plan.challenge === null && !missing))
      return { plan, presenter: null };
    // The daemon's word counts more than a file that may be of another time.
    const presenter = missing ? null : desk.presenter(terminal);
    if (presenter !== null) return { plan, presenter };
    if (enrolled) throw desk.lost();
    await desk.enrol();
  }
}

async function confirm(
  presenter: Client,
  challenge: Input<"ConfirmApproval">,
  desk: Desk,
): Promise<string> {
  try {
    return (await callAgain(presenter, "ConfirmApproval", challenge, desk)).approval;
  } catch (error) {
    const unknown = error instanceof KikiError && error.code.startsWith("credential-");
    throw unknown ? desk.lost(error) : error;
  }
}

/** A challenge that cannot be closed now expires by itself. */
async function cancel(presenter: Client, challenge: Input<"CancelApproval">): Promise<void> {
  await presenter
    .call("CancelApproval", challenge, { timeoutMs: CANCEL_TIMEOUT_MS })
    .catch(() => undefined);
}

async function callAgain<M extends MethodName>(
  client: Client,
  method: M,
  input: Input<M>,
  desk: Desk,
): Promise<Output<M>> {
  for (let reconnects = 0; ; reconnects += 1) {
    try {
      return await client.call(method, input, { timeoutMs: TIMEOUT_MS });
    } catch (error) {
      // A daemon that is there and slow is not asked twice; one that is leaving has refused and done nothing.
      const away = error instanceof KikiError && AWAY.has(error.code);
      if (!away || reconnects >= MAX_RECONNECTS) throw error;
      await desk.wake();
    }
  }
}

function deskOf(stateDir: string): Desk {
  return {
    pid: process.pid,
    terminal: openTerminal,
    presenter: (terminal) => presenterClient(stateDir, terminal),
    enrol: () => enrolPresenter(stateDir, process.pid),
    wake: async () => void (await connect()),
    lost: (cause) => lostPresenter(stateDir, cause),
    note,
    interrupted: endInterrupted,
  };
}

/** Approvals on the wire: the plan and its challenge, a person's answer, and the front end that gives it. */
import { presenceProblem, type Asker, type Broker } from "../../authority/broker.ts";
import { presenceOf, type Presence, type PresenceDeps } from "../../authority/presence.ts";
import { enrol, recover, type PresenterDeps } from "../../authority/presenters.ts";
import { fail, type KikiError } from "../../core/errors.ts";
import { planColumns } from "../../core/render/plan.ts";
import { APPROVAL_METHODS, type Approvable } from "../../rpc/contract/approvals.ts";
import { METHODS, type Input, type Output } from "../../rpc/contract/methods.ts";
import type { Handlers } from "../../rpc/server.ts";
import { everEnrolled, livePresenters } from "../../store/presenters.ts";
import { hashSecret } from "../../authority/identify.ts";
import { pinned } from "../about.ts";
import { planOf, type Planned } from "../approvable.ts";
import { approvalStore, type DaemonCaller } from "../attempts.ts";
import type { Daemon } from "../runtime.ts";
import { storable } from "../storable.ts";
import { isoTime } from "../views.ts";

type ApprovalMethod = keyof typeof APPROVAL_METHODS;
type Answer = Input<"ConfirmApproval">;

export interface ApprovalDeps {
  daemon: Daemon;
  broker: Broker;
  presence: PresenceDeps;
  presenters: PresenterDeps;
}

export function approvalHandlers(deps: ApprovalDeps): Pick<Handlers<DaemonCaller>, ApprovalMethod> {
  const { daemon, broker } = deps;
  const shownBy = (pid: number | undefined): Presence => presenceOf(deps.presence, pid);
  const answered = ({ challengeId, repoId, nonce, clientPid }: Answer, caller: DaemonCaller) => ({
    at: approvalStore(daemon, METHODS.NewThread.access, repoId),
    answer: { challengeId, nonce },
    presenter: { presenterId: presenterId(caller), presence: shownBy(clientPid) },
  });
  return {
    async BeginApproval(request, { caller, notes }) {
      const plan = await planOf(daemon, settled(request, caller));
      const presence = shownBy(request.clientPid);
      const refusal = presenceProblem(presence) ?? noPresenter(daemon);
      // Nobody could answer: the attempt is refused, and the plan is there to be read all the same.
      if (refusal !== null) notes.refused = refusal.code;
      const challenge = refusal === null ? begin(deps, request, { plan, caller, presence }) : null;
      const { digest } = plan;
      notes.detail["digest"] = digest;
      return {
        method: request.method,
        text: plan.textFor(planColumns(request.columns)),
        digest,
        challenge,
        refusal: refusal === null ? null : inWords(refusal),
      };
    },
    ConfirmApproval(input, { caller, notes }) {
      const { at, answer, presenter } = answered(input, caller);
      const { approval, expiresAt } = broker.confirm(at, answer, presenter);
      notes.detail["approval"] = approval;
      return { approval, expiresAt: isoTime(expiresAt) };
    },
    CancelApproval(input, { caller }) {
      const { at, answer, presenter } = answered(input, caller);
      broker.cancel(at, answer, presenter);
      return {};
    },
    EnrollApprovalPresenter: ({ clientPid }) =>
      enrolled(enrol(deps.presenters, shownBy(clientPid))),
    RecoverApprovalPresenter: ({ clientPid }) =>
      enrolled(recover(deps.presenters, shownBy(clientPid))),
  };
}

/** What is shown is about what the approval will be for, wherever a folder leads to by now. */
function settled(request: Approvable, { subject }: DaemonCaller): Approvable {
  const args = pinned<object>(METHODS[request.method].access.target, request.args, subject);
  return { ...request, args } as Approvable;
}

function begin(
  { daemon, broker }: ApprovalDeps,
  request: Approvable,
  { plan, caller, presence }: { plan: Planned; caller: DaemonCaller; presence: Presence },
): Output<"BeginApproval">["challenge"] {
  const { access } = METHODS[request.method];
  const { subject } = caller;
  const repoId = access.sink === "user" ? null : subject.repoId;
  const made = broker.begin(
    approvalStore(daemon, access, repoId),
    {
      method: request.method,
      target: subject.target ?? "",
      args: storable(request.args, hashSecret),
      text: plan.textFor(planColumns(request.columns)),
      digest: plan.digest,
    },
    asker(caller),
    presence,
  );
  return { ...made, expiresAt: isoTime(made.expiresAt), repoId };
}

/** The contract lets nobody else begin one. */
function asker(caller: DaemonCaller): Asker {
  const { kind } = caller;
  if (kind !== "ThreadScoped" && kind !== "RegistrationScoped") {
    throw new Error(`an approval begun by ${kind}`);
  }
  return { kind, credentialId: caller.credentialId };
}

function presenterId(caller: DaemonCaller): string {
  if (caller.kind === "ApprovalPresenter") return caller.presenterId;
  throw new Error(`an approval answered by ${caller.kind}`);
}

function noPresenter({ userDb }: Daemon): KikiError | null {
  if (livePresenters(userDb).length > 0) return null;
  return fail(
    "approval",
    "presenter-missing",
    "no terminal front end has been enrolled to confirm plans",
    everEnrolled(userDb) ? "kk presenter recover" : "kk init in a terminal",
  );
}

function inWords({ code, message, hint }: KikiError): Output<"BeginApproval">["refusal"] {
  return { code, message, hint: hint ?? null };
}

function enrolled(row: {
  presenterId: string;
  enrolledAt: number;
}): Output<"EnrollApprovalPresenter"> {
  return { presenterId: row.presenterId, enrolledAt: isoTime(row.enrolledAt) };
}

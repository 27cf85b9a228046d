/**
 * May this caller do this? In front of every method; the contract's table says what each demands, `core/access.ts`
 * decides, this says it in words. An approval is looked at here as well, and for a read it is spent here.
 */
import {
  kindProblem,
  needsApproval,
  scopeProblem,
  type About,
  type Access,
  type AccessProblem,
  type Identity,
} from "../core/access.ts";
import { fail, type KikiError } from "../core/errors.ts";
import type { Grant } from "./broker.ts";
import type { Identified } from "./identify.ts";

/** Whoever calls, and the approval the call came with. */
export type Caller = (Identity | { kind: "anonymous" }) & {
  /** Looks the approval up for exactly this call; throws why it cannot be used. null: it came without one, or needs none. */
  grant: (() => Grant) | null;
};

export interface Request {
  method: string;
  access: Access;
  who: Identified;
  /** Resolves what the request is about; asked only once the credential is known to be of the right kind. */
  about(): Promise<About>;
  /** The approval the call came with. */
  approval: string | null;
  /** Looks the approval up for exactly this call. Throws why it cannot be used. */
  grant(approval: string): Grant;
}

/** Throws KikiError of kind approval: `credential-missing|unknown|kind|thread`, `approval-needed|…`. */
export async function authorize(request: Request): Promise<Caller> {
  const { access, who, method } = request;
  const caller = who.identity;
  const kind = kindProblem(access, caller);
  if (kind !== null) throw who.unavailable ?? refusal(kind, method, who);
  const about = await request.about();
  const scope = scopeProblem(access, caller, about);
  if (scope !== null) throw refusal(scope, method, who);
  const base = caller ?? { kind: "anonymous" as const };
  if (!needsApproval(access, caller, about)) return { ...base, grant: null };
  const { approval } = request;
  const grant = approval === null ? null : (): Grant => request.grant(approval);
  const withGrant = { ...base, grant };
  if (access.spent === "at-once") requireGrant(withGrant, method).spend();
  return withGrant;
}

/** The approval of a call that begins something. Throws `approval-needed`, and why it cannot be used. */
export function requireGrant(caller: Caller, method: string): Grant {
  if (caller.grant === null) throw approvalNeeded(method);
  return caller.grant();
}

function approvalNeeded(method: string): KikiError {
  return fail(
    "approval",
    "approval-needed",
    `${method} needs a person's approval of its exact plan`,
    "run the command in a terminal of your own; BeginApproval shows the plan",
  );
}

function refusal(problem: AccessProblem, method: string, { fingerprint }: Identified): KikiError {
  switch (problem) {
    case "credential-missing":
      return fingerprint === "none"
        ? fail("approval", "credential-missing", "this method needs a kiki credential")
        : fail("approval", "credential-unknown", "this credential is unknown or has been revoked");
    case "credential-kind":
      return fail("approval", "credential-kind", `this kind of credential cannot call ${method}`);
    case "credential-thread":
      return fail("approval", "credential-thread", "this credential belongs to another thread");
  }
}

/** Approvals on the wire, and the presenter that confirms them. */
import { z } from "zod";
import { free, method } from "./method.ts";
import {
  zApplyRepair,
  zDiagnoseRepair,
  zGetAuditLog,
  zGetThreadAudit,
  zNewThread,
  zRegisterRepo,
  zUnregisterRepo,
} from "./inputs.ts";
import { zPlan, zThreadRef, zTime } from "./types.ts";

/** Process that shows the plan: the daemon looks at its terminal and its ancestors, and reserves names while it lives. */
const clientPid = z.number().int().positive().optional();
/** Width of the terminal it is shown on: the plan is laid out for it. */
const columns = z.number().int().min(1).max(2000).optional();
const about = <N extends string, A extends z.ZodType>(name: N, args: A) =>
  z.object({ method: z.literal(name), args, clientPid, columns });

/** What can be approved, with the arguments each is approved for. */
export const zApprovable = z.discriminatedUnion("method", [
  about("RegisterRepo", zRegisterRepo),
  about("UnregisterRepo", zUnregisterRepo),
  about("NewThread", zNewThread),
  about("ApplyRepair", zApplyRepair),
  about("DiagnoseRepair", zDiagnoseRepair),
  about("GetThreadState", zThreadRef),
  about("GetStatusBody", zThreadRef),
  about("GetThreadAudit", zGetThreadAudit),
  about("GetAuditLog", zGetAuditLog),
]);
export type Approvable = z.infer<typeof zApprovable>;

/** Which challenge, in whose database; the nonce came with it and is known to nobody else. */
const challenge = {
  challengeId: z.uuid(),
  repoId: z.string().nullable(),
  nonce: z.string().regex(/^[0-9a-f]{64}$/),
  clientPid: z.number().int().positive(),
};

const presenter = free("challenge", { callers: "presenter", audit: ["challengeId"] });

const enrolled = z.object({ presenterId: z.uuid(), enrolledAt: zTime });
/** The daemon looks at the terminal of this process. */
const onTerminal = z.object({ clientPid: z.number().int().positive() });

export const APPROVAL_METHODS = {
  BeginApproval: method({
    doc:
      "Non-mutating preflight of a consequential method: the exact plan, and a challenge for a person to confirm it. " +
      "`refusal` says why nobody can confirm it where it was asked for; there is no challenge then.",
    access: free("begin", { audit: ["method"] }),
    input: zApprovable,
    output: zPlan,
  }),
  ConfirmApproval: method({
    doc: "The person said yes to the plan on the presenter's foreground terminal; issues the one-use approval.",
    access: presenter,
    input: z.object(challenge),
    output: z.object({ approval: z.uuid(), expiresAt: zTime }),
  }),
  CancelApproval: method({
    doc: "The person said no. The challenge is closed and confirms nothing any more.",
    access: presenter,
    input: z.object(challenge),
    output: z.object({}),
  }),
  EnrollApprovalPresenter: method({
    doc:
      "First use: makes the terminal front end of this user the presenter and writes its credential file. Refused once " +
      "there has been one (`RecoverApprovalPresenter`), away from a foreground terminal, and below an agent.",
    access: free("none", { callers: "bootstrap", sink: "user" }),
    input: onTerminal,
    output: enrolled,
  }),
  RecoverApprovalPresenter: method({
    doc: "Revokes the presenter and enrols a new one. Only with the admin credential, which `kk` never loads by itself.",
    access: free("none", { callers: "admin", sink: "user" }),
    input: onTerminal,
    output: enrolled,
  }),
} as const;

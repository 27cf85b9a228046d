/** Sagas at whose end an agent is proved ready: create, reopen, restart, interrupt. */
import type { SagaPlan } from "../saga.ts";
import { STAYS } from "./detach.ts";
import {
  EFFECT_ATTEMPTS,
  WAIT_ATTEMPTS,
  type PlanTemplate,
  type StepTemplate,
} from "./template.ts";

const CREDENTIAL = {
  name: "credential",
  identity: "the credential's id",
  observation: "a credential row exists and the file hashes to it",
  compensation: "revoke the credential and remove its file",
  attempts: EFFECT_ATTEMPTS,
} as const satisfies StepTemplate<never>;

const HARNESS_CONFIG = {
  name: "harness-config",
  identity: "the incarnation and the harness's conversation id",
  observation: "the generated files hash to the recorded settings fingerprint",
  compensation: "remove the thread's generated harness folder",
  attempts: EFFECT_ATTEMPTS,
} as const satisfies StepTemplate<never>;

/** For an incarnation after the first: what the thread itself has in the folder stays. */
export const NEXT_CONFIG: StepTemplate<never> = {
  ...HARNESS_CONFIG,
  compensation: "remove what was generated for the new incarnation",
};

const SETUP = {
  name: "setup",
  identity: "a token that the recipe's processes carry in their environment, and its log",
  observation: "the recipe's result is recorded",
  compensation: "end the recipe's processes and remove the copies that are still what was copied",
  attempts: WAIT_ATTEMPTS,
} as const satisfies StepTemplate<never>;

export const SESSION = {
  name: "session",
  identity: "the session's name and this operation's id, its tag",
  observation: "a tmux session carries this operation's id as @kiki_op",
  compensation: "kill the session that carries the tag",
  attempts: EFFECT_ATTEMPTS,
} as const satisfies StepTemplate<never>;

export const LAUNCH = {
  name: "launch",
  identity: "this operation's id, the pane's tag",
  observation: "a pane of the session carries @kiki_role=agent and this operation's id",
  compensation: null, // the pane dies with the session
  attempts: EFFECT_ATTEMPTS,
} as const satisfies StepTemplate<never>;

/** In a session that is there already. */
const NEXT_LAUNCH: StepTemplate<never> = {
  ...LAUNCH,
  identity: "the agent pane's id with the pid and start time of its wrapper",
  observation: "that wrapper runs in that pane and waits for a gate",
};

export const GATE = {
  name: "gate",
  identity: "the gate's id, the incarnation and the one pane that may pass",
  observation: "the launch gate row is Activated for the recorded incarnation",
  compensation: "revoke the gate and retire the incarnation",
  attempts: EFFECT_ATTEMPTS,
} as const satisfies StepTemplate<never>;

export const READY = {
  name: "ready",
  identity: "the incarnation",
  observation: "the incarnation has ready_at",
  compensation: null,
  attempts: WAIT_ATTEMPTS,
} as const satisfies StepTemplate<never>;

/** `kk new` (threads chapter, "Creation saga"). */
export const CREATE_PLAN = {
  kind: "Create",
  variant: "",
  lifecycle: {
    from: ["Creating"],
    during: "Creating",
    completed: "Active",
    unwound: "CreateFailed",
    stuck: "CreateFailed",
  },
  steps: [
    {
      name: "allocate",
      identity: "the thread that is followed",
      observation: "the thread row carries base, names and edge (one transaction)",
      compensation: "remove what was recorded for the agent before the first step",
      attempts: EFFECT_ATTEMPTS,
    },
    {
      name: "workspace",
      identity: "the workspace's name and path, and the token of the operation that makes it",
      observation:
        "jj records a workspace of the allocated name in the operation carrying the step's token",
      compensation:
        "forget the workspace; remove its folder only when it holds nothing but what jj put there",
      attempts: EFFECT_ATTEMPTS,
    },
    {
      name: "head",
      identity: "the workspace's name",
      observation:
        "the thread row carries the workspace's exact @ and the operation it was read from",
      compensation: "abandon the initial change while it is still empty",
      attempts: EFFECT_ATTEMPTS,
    },
    {
      name: "bookmark",
      identity: "the bookmark, the workspace, and the token of the operation that makes it",
      observation: "the bookmark exists at exactly the recorded head",
      compensation: "delete the bookmark while it still names the recorded commit or its rewrite",
      attempts: EFFECT_ATTEMPTS,
    },
    CREDENTIAL,
    HARNESS_CONFIG,
    SETUP,
    SESSION,
    LAUNCH,
    GATE,
    READY,
  ],
} as const satisfies SagaPlan;

export type CreateStep = (typeof CREATE_PLAN)["steps"][number]["name"];

/** `kk reopen`: the thread stays `Closed` until its agent is ready. */
export const REOPEN: PlanTemplate<never> = {
  kind: "Reopen",
  name: "",
  lifecycle: {
    from: ["Closed"],
    during: "Closed",
    completed: "Active",
    unwound: "Closed",
    stuck: "ProjectionDiverged",
  },
  flags: [],
  steps: [
    {
      name: "recheck",
      identity: "the recorded checkpoint",
      observation: "the complete frontier is read, and the bookmark is on that commit",
      compensation: null,
      attempts: EFFECT_ATTEMPTS,
    },
    {
      name: "workspace",
      identity: "the workspace's name and path, the checkpoint, and the token of the operation",
      observation: "jj records the workspace at exactly the checkpoint, and its folder is there",
      compensation:
        "forget the workspace; remove its folder only when it holds nothing but what jj put there",
      attempts: EFFECT_ATTEMPTS,
    },
    CREDENTIAL,
    NEXT_CONFIG,
    SETUP,
    SESSION,
    LAUNCH,
    GATE,
    READY,
  ],
};

const RETIRE: StepTemplate<never> = {
  name: "retire",
  identity: "the incarnation that is to be replaced, with its process",
  observation: "that incarnation is retired and its process is gone",
  compensation: null, // an ended agent stays ended: `kk thread restart` tries again
  attempts: EFFECT_ATTEMPTS,
};

/** `kk thread restart`: the pane and its wrapper are there, and ask for a gate. */
export const RESTART: PlanTemplate<never> = {
  kind: "Restart",
  name: "",
  lifecycle: STAYS,
  flags: [],
  steps: [RETIRE, NEXT_CONFIG, NEXT_LAUNCH, GATE, READY],
};

/** `kk thread interrupt`: stops and ends the running agent first. */
export const INTERRUPT: PlanTemplate<never> = {
  kind: "Interrupt",
  name: "",
  lifecycle: STAYS,
  flags: [],
  steps: [
    {
      name: "stop",
      identity: "the operation, and each process's pid, start time and prior stop state",
      observation: "every process of the agent below its wrapper is stopped",
      compensation: "resume exactly the processes that were running and are still there",
      attempts: EFFECT_ATTEMPTS,
      restart: "unwind",
    },
    {
      name: "end",
      identity: "the stopped processes",
      observation: "none of them is left",
      compensation: null, // as for `retire`
      attempts: EFFECT_ATTEMPTS,
    },
    RETIRE,
    NEXT_CONFIG,
    NEXT_LAUNCH,
    GATE,
    READY,
  ],
};

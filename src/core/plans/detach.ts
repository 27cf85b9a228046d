/** Detach and checkpoint (threads chapter, "Detach" and "Checkpointing"). */
import {
  EFFECT_ATTEMPTS,
  WAIT_ATTEMPTS,
  type PlanTemplate,
  type StepTemplate,
} from "./template.ts";
import type { SagaLifecycle } from "../saga.ts";

export const STAYS: SagaLifecycle = {
  from: ["Active"],
  during: "prior",
  completed: "prior",
  unwound: "prior",
  stuck: "prior",
};

const PIN: StepTemplate<never> = {
  name: "pin",
  identity: "the thread, the pinned operation, and the checkpoint it had",
  observation:
    "the thread's row has the workspace's exact @ of that operation as head and checkpoint",
  compensation: "put the former checkpoint back into the row, while the bookmark is still on it",
  attempts: EFFECT_ATTEMPTS,
};

const MOVE: StepTemplate<never> = {
  name: "bookmark",
  identity: "the bookmark, the pinned commit and the token of the operation that moves it",
  observation: "the bookmark is on exactly that commit in the operation carrying the token",
  compensation:
    "move it back to the former checkpoint, while it is on the pinned commit or its rewrite",
  attempts: EFFECT_ATTEMPTS,
};

const VERIFY: StepTemplate<never> = {
  name: "verify",
  identity: "the bookmark and the pinned commit",
  observation: "the resulting operation has the bookmark on that commit or its recorded rewrite",
  compensation: null,
  attempts: EFFECT_ATTEMPTS,
};

export const CHECKPOINT: PlanTemplate<never> = {
  kind: "Checkpoint",
  name: "",
  lifecycle: STAYS,
  flags: [],
  steps: [PIN, MOVE, VERIFY],
};

/** `kk thread detach`. A crash between the checkpoint and the deleted edge retries the same checkpoint. */
export const DETACH: PlanTemplate<"discard"> = {
  kind: "Detach",
  name: "",
  lifecycle: STAYS,
  flags: ["discard"],
  steps: [
    {
      name: "admission",
      identity: "the thread and this operation, as the reason of its closed admission",
      observation: "admission is closed for this operation",
      compensation: "open admission again",
      attempts: EFFECT_ATTEMPTS,
    },
    {
      name: "refresh",
      identity: "the edge with its anchor",
      observation:
        "the complete frontier is read, and an intent covers the way from the anchor to the parent's head",
      compensation: null,
      attempts: EFFECT_ATTEMPTS,
    },
    {
      name: "discard",
      when: "discard",
      identity: "the pending intents that the one-shot approval names",
      observation: "each of them carries the person's resolution",
      compensation: null,
      attempts: EFFECT_ATTEMPTS,
    },
    {
      name: "reconcile",
      identity: "the intents that were pending",
      observation:
        "each of them has ended, at the child's boundary or on its stopped and probed tree",
      compensation: null,
      attempts: WAIT_ATTEMPTS,
    },
    {
      name: "stack",
      identity: "the child's base and head in the pinned operation",
      observation: "the owned stack is valid in that operation",
      compensation: null,
      attempts: EFFECT_ATTEMPTS,
    },
    PIN,
    MOVE,
    VERIFY,
    {
      name: "edge",
      identity: "the edge with its anchor and the verified checkpoint",
      observation: "the child follows nobody, keeps its base, and admission is open",
      compensation: null, // the last step, and one transaction
      attempts: EFFECT_ATTEMPTS,
    },
  ],
};

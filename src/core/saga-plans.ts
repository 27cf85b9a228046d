/** Every saga's steps in their normative order. The runner, the crash matrix and `kk repair` all read this table. */
import type { SagaPlan } from "./saga.ts";

/** `kk new` (threads chapter, "Creation saga"). */
export const CREATE_PLAN = {
  kind: "Create",
  steps: [
    {
      name: "allocate",
      observation: "the thread row carries base, names and edge (one transaction)",
      compensation: "remove what was recorded for the agent before the first step",
    },
    {
      name: "workspace",
      observation:
        "jj records a workspace of the allocated name in the operation carrying the step's token",
      compensation:
        "forget the workspace; remove its folder only when it holds nothing but what jj put there",
    },
    {
      name: "head",
      observation:
        "the thread row carries the workspace's exact @ and the operation it was read from",
      compensation: "abandon the initial change while it is still empty",
    },
    {
      name: "bookmark",
      observation: "the bookmark exists at exactly the recorded head",
      compensation: "delete the bookmark while it still names the recorded commit or its rewrite",
    },
    {
      name: "credential",
      observation: "a credential row exists and the file hashes to it",
      compensation: "revoke the credential and remove its file",
    },
    {
      name: "harness-config",
      observation: "the generated files hash to the recorded settings fingerprint",
      compensation: "remove the thread's generated harness folder",
    },
    { name: "setup", observation: "the recipe's result is recorded", compensation: null },
    {
      name: "session",
      observation: "a tmux session carries this operation's id as @kiki_op",
      compensation: "kill the session by its stored id",
    },
    {
      name: "launch",
      observation: "a pane of the session carries @kiki_role=agent and this operation's id",
      compensation: null, // the pane dies with the session
    },
    {
      name: "gate",
      observation: "the launch gate row is Activated for the recorded incarnation",
      compensation: "revoke the gate and retire the incarnation",
    },
    {
      name: "ready",
      observation: "the incarnation has ready_at",
      compensation: null,
    },
  ],
} as const satisfies SagaPlan;

export type CreateStep = (typeof CREATE_PLAN)["steps"][number]["name"];
export const SAGA_PLANS: readonly SagaPlan[] = [CREATE_PLAN];

/** `kk repair`: what is wrong, what can be done about it, and doing it when a person agrees. */
import { defineCommand } from "citty";
import { agentEnv } from "../core/agent-env.ts";
import { EXIT, fail } from "../core/errors.ts";
import { renderDiagnoses } from "../core/render/repair.ts";
import { printable } from "../core/render/width.ts";
import type { Client } from "../rpc/client.ts";
import type { Input, Output } from "../rpc/contract/methods.ts";
import { approvedCall } from "./approved-call.ts";
import { connect } from "./connect.ts";
import { contextThread, targetThread } from "./context.ts";
import { findHarness } from "./harness-binaries.ts";
import { colour, print, printError, printJson } from "./out.ts";
import { followCreation, followOperation } from "./progress.ts";

type Diagnosis = Output<"DiagnoseRepair">["diagnoses"][number];

/** Diagnosing reads jj and tmux for every thread. */
const TIMEOUT_MS = 120_000;

export const repairCommand = defineCommand({
  meta: {
    name: "repair",
    description: "Show what is wrong with a thread and the repairs there are",
  },
  args: {
    thread: {
      type: "positional",
      required: false,
      description: "Name, unique prefix of a name, or id; default: the thread of this place",
    },
    all: { type: "boolean", description: "Every thread of the repository that needs repair" },
    apply: { type: "string", valueHint: "id", description: "Carry out this repair, after asking" },
    json: { type: "boolean", description: "Print as JSON" },
  },
  async run({ args }) {
    if (args.all && args.thread !== undefined) {
      throw fail("usage", "usage", "--all and a thread exclude each other", "kk help repair");
    }
    const { client } = await connect();
    const diagnoses = await diagnose(client, args.thread, args.all === true);
    const json = args.json === true;
    if (args.apply !== undefined) return apply(client, diagnoses, args.apply, json);
    const shown = args.all ? diagnoses.filter((d) => d.needsRepair) : diagnoses;
    if (json) printJson({ diagnoses: shown });
    else print(renderDiagnoses(shown, { colour: colour() }));
    if (shown.some((d) => d.needsRepair)) process.exitCode = EXIT.needsRepair;
  },
});

async function diagnose(
  client: Client,
  target: string | undefined,
  all: boolean,
): Promise<Diagnosis[]> {
  const request = all ? await everyThread(client) : await targetThread(client, target);
  const { diagnoses } = await client.call("DiagnoseRepair", request, { timeoutMs: TIMEOUT_MS });
  return diagnoses;
}

async function everyThread(client: Client): Promise<Input<"DiagnoseRepair">> {
  const context = await contextThread(client);
  const repo = context === null ? { folder: process.cwd() } : { repoId: context.repoId };
  return { repo, thread: null };
}

async function apply(
  client: Client,
  diagnoses: readonly Diagnosis[],
  planId: string,
  json: boolean,
): Promise<void> {
  const found = diagnoses.find((d) => d.plans.some((plan) => plan.id === planId));
  if (found === undefined) {
    throw fail(
      "needsRepair",
      "repair-stale",
      `there is no repair ${planId}: it was another thread's, or what it was made for has changed`,
      "kk repair shows what there is to repair now",
    );
  }
  const request = {
    repo: { repoId: found.repoId },
    thread: found.threadId,
    planId,
    harnessExecutable: findHarness(found.harness, process.env),
    env: agentEnv(process.env),
  };
  const begun = await approvedCall(client, "ApplyRepair", request, {
    json,
    changed: "something changed while you were reading; this is the plan now:",
  });
  const show = json ? printError : print;
  const end = await followOperation(client, begun, show);
  if (end.error !== null) {
    throw fail(
      "failed",
      "repair-failed",
      `${begun.name} was not repaired: ${end.error}`,
      "kk repair",
    );
  }
  // A retry's repair makes room; the creation that follows it is an operation of its own.
  if (end.next !== null) await followCreation(client, { ...begun, operationId: end.next }, show);
  const name = printable(begun.name);
  const done = end.next === null ? `${name} is gone; its names are free` : `created ${name}`;
  if (json) printJson(await client.call("GetLifecycleOperation", lastOf(begun, end)));
  else print(done);
}

function lastOf(
  begun: Output<"ApplyRepair">,
  end: Output<"GetLifecycleOperation">,
): Input<"GetLifecycleOperation"> {
  const operationId = end.next ?? begun.operationId;
  return { repoId: begun.repoId, operationId, seen: "", waitMs: 0 };
}

/** `kk repair`: what is wrong, what can be done about it, and doing it when a person agrees. */
import { defineCommand } from "citty";
import { agentEnv } from "../core/agent-env.ts";
import { EXIT, fail } from "../core/errors.ts";
import { renderDiagnoses } from "../core/render/repair.ts";
import { printable } from "../core/render/width.ts";
import type { Client } from "../rpc/client.ts";
import type { Input, Output } from "../rpc/contract/methods.ts";
import { approvedCall, readOrAsk } from "./approved-call.ts";
import { connect, type Connection } from "./connect.ts";
import { contextThread, targetThread } from "./context.ts";
import { clientOf } from "./credentials.ts";
import { findHarness } from "./harness-binaries.ts";
import { colour, print, printError, printJson } from "./out.ts";
import { followCreation, followOperation } from "./progress.ts";

type Diagnosis = Output<"DiagnoseRepair">["diagnoses"][number];

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
    const connection = await connect();
    const json = args.json === true;
    const given = { target: args.thread, all: args.all === true, json };
    const diagnoses = await diagnose(connection, given);
    if (args.apply !== undefined) return apply(connection, diagnoses, args.apply, json);
    const shown = args.all ? diagnoses.filter((d) => d.needsRepair) : diagnoses;
    if (json) printJson({ diagnoses: shown });
    else print(renderDiagnoses(shown, { colour: colour() }));
    if (shown.some((d) => d.needsRepair)) process.exitCode = EXIT.needsRepair;
  },
});

async function diagnose(
  connection: Connection,
  given: { target: string | undefined; all: boolean; json: boolean },
): Promise<Diagnosis[]> {
  const { client } = connection;
  const request = given.all ? await everyThread(client) : await targetThread(client, given.target);
  const asked = `what is wrong with ${threadWords(given.all ? null : (given.target ?? request.thread))}`;
  const asking = { asked, json: given.json };
  return (await readOrAsk(connection, "DiagnoseRepair", request, asking)).diagnoses;
}

function threadWords(thread: string | null): string {
  return thread === null ? "every thread" : `thread ${JSON.stringify(thread)}`;
}

async function everyThread(client: Client): Promise<Input<"DiagnoseRepair">> {
  const context = await contextThread(client);
  const repo = context === null ? { folder: process.cwd() } : { repoId: context.repoId };
  return { repo, thread: null };
}

async function apply(
  connection: Connection,
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
  const begun = await approvedCall(connection, "ApplyRepair", request, {
    asked: `repair ${planId} of ${threadWords(found.name)}`,
    json,
  });
  const show = json ? printError : print;
  const end = await followOperation(begun, show);
  if (end.error !== null) {
    throw fail(
      "failed",
      "repair-failed",
      `${begun.name} was not repaired: ${end.error}`,
      "kk repair",
    );
  }
  // A retry's repair makes room; the creation that follows it is an operation of its own.
  if (end.next !== null) await followCreation({ ...begun, operationId: end.next }, show);
  const name = printable(begun.name);
  const plan = found.plans.find(({ id }) => id === planId)!;
  const done = doneWords(name, plan.kind, end.next !== null);
  if (!json) return print(done);
  const client = clientOf(connection.stateDir, begun.repoId, begun.threadId);
  printJson(await client.call("GetLifecycleOperation", lastOf(begun, end)));
}

function doneWords(name: string, kind: string, created: boolean): string {
  if (created) return `created ${name}`;
  return kind === "creation-cleanup"
    ? `${name} is gone; its names are free`
    : `repaired ${name}: ${kind}`;
}

function lastOf(
  begun: Output<"ApplyRepair">,
  end: Output<"GetLifecycleOperation">,
): Input<"GetLifecycleOperation"> {
  const operationId = end.next ?? begun.operationId;
  return { repoId: begun.repoId, operationId, seen: "", waitMs: 0 };
}

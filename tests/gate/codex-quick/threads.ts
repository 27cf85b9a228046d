/**
 * Threads on the real Codex that says another version: one that behaves is told at its calls; one that allows parallel calls
 * is told by a restart alone; where a project's hooks run in it, or kiki's do not, no agent gets a prompt.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { CodexScripts } from "../../../fixtures/model-servers/codex.ts";
import { nativeProgram } from "../../../src/backends/harness/codex/program.ts";
import { codexShim, type CodexBehaviour } from "../../support/codex-shim.ts";
import { exec, say } from "../codex-model.ts";
import {
  after,
  asked,
  askedByReplacement,
  codexThread,
  codexWords,
  family,
  onceTold,
  onStage,
  outputs,
  personMoves,
  type Stage,
} from "../codex-stage.ts";
import { CODEX } from "../install.ts";
import type { Cues } from "../model.ts";
import type { GateOptions } from "../options.ts";
import type { Report } from "../report.ts";
import { eventsOf, readRepoDb, sessionOf, until } from "../story.ts";

const SOFT = "soft";
const ANEW = "anew";

const scripts = (cues: Cues): CodexScripts => ({
  parser: [[say("Ready.")]],
  loud: [[say("I was asked.")]],
  [SOFT]: [
    [exec("c_begin", "echo begun")],
    after(cues, "soft", [exec("c_soft", "touch soft.txt")]),
    [exec("c_read", "cat parser.ts")],
    [say("Read.")],
  ],
  [ANEW]: [
    [exec("c_begin", "echo begun")],
    after(cues, "anew", [exec("c_refused", "touch refused.txt")]),
    onceTold(cues, [exec("c_seen", "cat parser.ts")]),
    [say("Seen.")],
  ],
});

export function threadsOfUnknownVersions(report: Report, options: GateOptions): Promise<void> {
  return onStage(report, options, "codex-quick", scripts, async (stage) => {
    await refused(
      report,
      stage,
      "runs-project-hooks",
      "cannot prove that its hook is the only one (hooks that are not kiki's ran in it:",
    );
    await refused(
      report,
      stage,
      "asks-nobody",
      "cannot prove that its hook is the only one (kiki's hooks did not run in it, although it lists them",
    );
    await behaves(report, stage);
    await restartOnly(report, stage);
  });
}

/** Every `kk` of `body` finds that version of the program first. */
async function asVersion<T>(
  { world }: Stage,
  behaviour: CodexBehaviour,
  body: () => Promise<T>,
): Promise<T> {
  const path = world.env["PATH"]!;
  world.env["PATH"] = `${codexShim(world.dir, behaviour, nativeProgram(CODEX))}:${path}`;
  try {
    return await body();
  } finally {
    world.env["PATH"] = path;
  }
}

async function doctor({ world }: Stage): Promise<string> {
  const { stdout } = await world.kk(["doctor", "--json"]);
  const { lines } = JSON.parse(stdout) as { lines: { name: string; detail: string }[] };
  return lines.find(({ name }) => name === "codex")?.detail ?? stdout;
}

async function refused(
  report: Report,
  stage: Stage,
  behaviour: CodexBehaviour,
  why: string,
): Promise<void> {
  const { world, model } = stage;
  report.heading(`codex-quick: a version that is refused, ${behaviour}`);
  await asVersion(stage, behaviour, async () => {
    const words = ["new", ...codexWords(stage, "loud"), "--detach"];
    const made = await world.kkOnTerminal(words, "y");
    const screen = made.screen.replace(/\s+/g, " ");
    report.check("no thread, and the reason", made.code !== 0 && screen.includes(why), made.screen);
    report.check(
      "nothing was made, and no model was asked",
      (await world.threads()).length === 0 &&
        !model.requests.some(({ script }) => script === "loud"),
    );
    const detail = await doctor(stage);
    const reason = why.slice(why.indexOf("(") + 1);
    report.check(
      "kk doctor says that it is refused, and why",
      detail.includes("refused: no thread can run with it") && detail.includes(reason),
      detail,
    );
  });
}

async function behaves(report: Report, stage: Stage): Promise<void> {
  const { world, cues, harness } = stage;
  report.heading("codex-quick: a version that behaves");
  await asVersion(stage, "behaves", async () => {
    await family(stage, SOFT);
    const detail = await doctor(stage);
    report.check("kk doctor says that it was proved here", detail.includes("proved here"), detail);
  });
  await personMoves(stage, SOFT, "v2");
  cues.give("soft");
  const told = outputs(await asked(stage, SOFT, 2)).get("c_soft");
  const intent = await until(world, SOFT, (i) => i.state === "Acknowledged", "acknowledged");
  const call = { toolName: "Bash", command: "touch soft.txt" };
  report.check(
    "told at its own call, byte for byte, and acknowledged without a restart",
    told === harness.expectedResult(intent.payload, call) &&
      intent.receipt === "matching" &&
      intent.delivery_mode !== "RestartStartup",
    JSON.stringify({ told, intent }, null, 1),
  );
  const read = await asked(stage, SOFT, 3);
  report.check(
    "the refused call has not run, the next one reads v2",
    !existsSync(join(stage.at(SOFT), "soft.txt")) &&
      outputs(read).get("c_read")?.includes("v2") === true,
  );
}

async function restartOnly(report: Report, stage: Stage): Promise<void> {
  const { world, cues } = stage;
  report.heading("codex-quick: a version whose requests allow several calls at a time");
  const why = "it lets its model ask for several calls at a time (parallel_tool_calls)";
  await asVersion(stage, "parallel-calls", async () => {
    await codexThread(stage, ANEW, "--follows", "parser");
    const detail = await doctor(stage);
    report.check(
      "kk doctor says restart-only, and why",
      detail.includes("restart-only:") && detail.includes(why),
      detail,
    );
  });
  await asked(stage, ANEW, 1);
  await personMoves(stage, ANEW, "v3");
  const before = sessionOf(world, ANEW);
  cues.give("anew");
  const intent = await until(world, ANEW, (i) => i.state === "Acknowledged", "acknowledged");
  const request = await askedByReplacement(stage, ANEW, intent.payload);
  const now = sessionOf(world, ANEW);
  report.check(
    "told by a restart at the first attempt, in the same session",
    intent.delivery_mode === "RestartStartup" &&
      intent.soft_redelivery_count === 0 &&
      now?.pid !== before?.pid &&
      now?.harness_session_id === before?.harness_session_id,
    JSON.stringify({ intent, before, now }, null, 1),
  );
  const payloads = readRepoDb(world, (db) =>
    db
      .query<{ n: number }, [string]>(
        `SELECT count(*) AS n FROM tool_admissions JOIN agent_sessions USING (agent_session_id)
         JOIN threads USING (thread_id) WHERE name = ? AND answer = 'payload'`,
      )
      .get(ANEW),
  );
  report.check(
    "no call was answered with the payload, and the refused one has not run",
    payloads?.n === 0 &&
      !existsSync(join(stage.at(ANEW), "refused.txt")) &&
      outputs(request).get("c_seen") === undefined,
    JSON.stringify(payloads),
  );
  const seen = await asked(stage, ANEW, 3);
  report.check("it reads v3", outputs(seen).get("c_seen")?.includes("v3") === true);
  report.check(
    "no call was taken for a violation",
    eventsOf(world, ANEW, "serial_violation").length === 0,
  );
}

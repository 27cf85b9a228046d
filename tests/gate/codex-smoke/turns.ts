/** Ends of turns and of processes: Stop completes and never acknowledges; who is killed after it was told is told again. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { CodexScripts } from "../../../fixtures/model-servers/codex.ts";
import { exec, say } from "../codex-model.ts";
import type { Cues } from "../model.ts";
import type { GateOptions } from "../options.ts";
import type { Report } from "../report.ts";
import { checkAcknowledged, sessionOf, until } from "../story.ts";
import {
  after,
  asked,
  askedByReplacement,
  family,
  firstInput,
  kill,
  onceTold,
  onStage,
  outputs,
  personMoves,
  prompt,
  type Stage,
} from "../codex-stage.ts";

const CHILD = "docs";

const scripts = (cues: Cues): CodexScripts => ({
  parser: [[say("Ready.")]],
  [CHILD]: [
    [exec("c_begin", "echo begun")],
    after(cues, "stop", [exec("c_stop", "touch stop.txt")]),
    [say("I stop here.")],
  ],
  next: [[exec("c_next", "cat parser.ts")], [say("Read.")]],
  killed: [
    [exec("c_killed", "echo ran >>killed.txt")],
    onceTold(cues, [exec("c_told", "cat parser.ts")]),
    [say("Read.")],
  ],
});

export function turns(report: Report, options: GateOptions): Promise<void> {
  return onStage(report, options, "codex-turns", scripts, async (stage) => {
    await family(stage, CHILD);
    await stopped(report, stage);
    await killed(report, stage);
  });
}

async function stopped(report: Report, stage: Stage): Promise<void> {
  const { world, cues, harness } = stage;
  report.heading("codex-smoke: the model stops at a refused call");
  await personMoves(stage, CHILD, "v2");
  cues.give("stop");
  const told = outputs(await asked(stage, CHILD, 2)).get("c_stop");
  const intent = await until(
    world,
    CHILD,
    (i) => i.batch_completed_at !== null,
    "completed by Stop",
  );
  report.check(
    "it was told byte for byte",
    told ===
      harness.expectedResult(intent.payload, { toolName: "Bash", command: "touch stop.txt" }),
    told,
  );
  report.check(
    "Stop completes the batch with its matching receipt, and acknowledges nothing",
    intent.state === "Delivered" && intent.receipt === "matching",
    JSON.stringify(intent, null, 1),
  );
  await prompt(stage, CHILD, "SCRIPT:next");
  const read = await asked(stage, "next", 1);
  report.check(
    "the next turn's first call runs, on v2",
    outputs(read).get("c_next")?.includes("v2") === true,
  );
  checkAcknowledged(report, world, CHILD, 1);
}

async function killed(report: Report, stage: Stage): Promise<void> {
  const { world } = stage;
  report.heading("codex-smoke: the program is killed after it was told");
  await until(world, CHILD, (i) => i.state === "Acknowledged", "acknowledged");
  await personMoves(stage, CHILD, "v3");
  await prompt(stage, CHILD, "SCRIPT:killed");
  await asked(stage, "killed", 1);
  await until(world, CHILD, (i) => i.seq === 2 && i.state === "Delivered", "delivered");
  const before = kill(world, CHILD);
  const intent = await until(world, CHILD, (i) => i.state === "Acknowledged", "acknowledged");
  const request = await askedByReplacement(stage, "killed", intent.payload);
  report.check(
    "the replacement's first input is the saved payload, byte for byte, with its mark",
    firstInput(request).startsWith(intent.payload),
    firstInput(request),
  );
  report.check(
    "what the person typed before it was told follows, so the model asks for that call again",
    firstInput(request).endsWith("SCRIPT:killed"),
    firstInput(request),
  );
  const now = sessionOf(world, CHILD);
  report.check(
    "another process, the same session, acknowledged by restart at the first attempt",
    now !== null &&
      now.pid !== before.pid &&
      now.harness_session_id === before.harness_session_id &&
      intent.delivery_mode === "RestartStartup" &&
      intent.delivery_epoch === 1,
    JSON.stringify({ before, now, intent }, null, 1),
  );
  const read = await asked(stage, "killed", 2);
  report.check("it reads v3", outputs(read).get("c_told")?.includes("v3") === true);
  report.check(
    "no refused call has run: only the one that was asked for again, once",
    !existsSync(join(stage.at(CHILD), "stop.txt")) &&
      readFileSync(join(stage.at(CHILD), "killed.txt"), "utf8") === "ran\n",
  );
}

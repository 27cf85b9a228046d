/**
 * A verdict that is lost between kk-hook and Codex, on the real thing: the generated launcher is changed under the running
 * agent so that it treats kk-hook as dead. Contrary receipts, one redelivery, a restart, attempts that fail, exhaustion,
 * and its two exits.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { CodexScripts } from "../../../fixtures/model-servers/codex.ts";
import { GENERIC_DENY_REASON } from "../../../src/core/generic-deny.ts";
import { waitFor } from "../../support/wait.ts";
import { exec, say } from "../codex-model.ts";
import { STEP_MS, type Cues } from "../model.ts";
import type { GateOptions } from "../options.ts";
import type { Report } from "../report.ts";
import { readRepoDb, sessionOf, until } from "../story.ts";
import type { World } from "../../support/world.ts";
import {
  after,
  asked,
  askedByReplacement,
  family,
  kill,
  onceTold,
  onStage,
  outputs,
  personMoves,
  type Stage,
} from "../codex-stage.ts";

const CHILD = "lint";
const ATTEMPTS = 2;
const touch = (id: string) => exec(id, `touch ${id}.txt`);
const command = (id: string) => ({ toolName: "Bash", command: `touch ${id}.txt` });

const scripts = (cues: Cues): CodexScripts => ({
  parser: [[say("Ready.")]],
  [CHILD]: [
    [exec("c_begin", "echo begun")],
    after(cues, "lost", [touch("c_lost")]),
    after(cues, "found", [touch("c_found")]),
    [exec("c_read", "cat parser.ts")],
    after(cues, "lost again", [touch("c_lost_1")]),
    [touch("c_lost_2")],
    [touch("c_lost_3")],
    // Replacements are asked here until one may answer.
    onceTold(cues, [exec("c_retried", "cat parser.ts")], "answer"),
    after(cues, "to be discarded", [touch("c_discard")]),
    onceTold(cues, [say("Never.")], "never"),
  ],
});

export function receipts(report: Report, options: GateOptions): Promise<void> {
  return onStage(report, options, "codex-receipts", scripts, async (stage) => {
    writeFileSync(join(stage.world.stateDir, "config.toml"), `[cascade]\nattempts = ${ATTEMPTS}\n`);
    await family(stage, CHILD);
    await lostOnce(report, stage);
    await lostTwice(report, stage);
    await exhausted(report, stage, "retry-delivery");
    await retried(report, stage);
    await discarded(report, stage);
  });
}

const flag = ({ world }: Stage): string => join(world.dir, "verdicts-are-lost");

/** From now on a flag makes the launcher of this very incarnation lose every verdict that refuses. */
function breakable(stage: Stage): void {
  const threadId = readRepoDb(stage.world, (db) =>
    db
      .query<{ id: string }, [string]>("SELECT thread_id AS id FROM threads WHERE name = ?")
      .get(CHILD),
  )?.id;
  const [launcher] = [
    ...new Bun.Glob(`repos/*/harness/${threadId}/hook`).scanSync(stage.world.stateDir),
  ];
  if (launcher === undefined)
    throw new Error(`no launcher of ${CHILD} below ${stage.world.stateDir}`);
  const path = join(stage.world.stateDir, launcher);
  const text = readFileSync(path, "utf8");
  const lost = `code=$?\nif [ -e '${flag(stage)}' ] && [ "$code" -eq 11 ]; then verdict=; code=137; fi\n`;
  if (!text.includes("code=$?\n")) throw new Error("the launcher is not as it was");
  writeFileSync(path, text.replace("code=$?\n", lost), { mode: 0o700 });
}

async function lostOnce(report: Report, stage: Stage): Promise<void> {
  const { world, cues, harness } = stage;
  report.heading("codex-smoke: a verdict is lost; the launcher refuses in general words");
  breakable(stage);
  await personMoves(stage, CHILD, "v2");
  writeFileSync(flag(stage), "");
  cues.give("lost");
  const got = outputs(await asked(stage, CHILD, 2)).get("c_lost");
  report.check(
    "the model gets the general refusal, byte for byte",
    got === harness.expectedResult(GENERIC_DENY_REASON, command("c_lost")),
    got,
  );
  await until(world, CHILD, (i) => i.state === "Delivered", "kk-hook's word that it was delivered");
  rmSync(flag(stage));
  cues.give("found");
  const next = outputs(await asked(stage, CHILD, 3)).get("c_found");
  const intent = await until(world, CHILD, (i) => i.soft_redelivery_count === 1, "redelivered");
  report.check(
    "a contrary receipt: the arriving call is refused with the same payload, once more, and that is counted",
    next === harness.expectedResult(intent.payload, command("c_found")),
    next,
  );
  const read = await asked(stage, CHILD, 4);
  report.check("the next call reads v2", outputs(read).get("c_read")?.includes("v2") === true);
  await until(
    world,
    CHILD,
    (i) => i.state === "Acknowledged" && i.receipt === "matching",
    "acknowledged after one redelivery",
  );
  report.check("neither refused call has run", !ran(stage, ["c_lost", "c_found"]));
}

async function lostTwice(report: Report, stage: Stage): Promise<void> {
  const { world, cues, harness } = stage;
  report.heading("codex-smoke: a second contrary receipt is not redelivered");
  await personMoves(stage, CHILD, "v3");
  const before = sessionOf(world, CHILD);
  writeFileSync(flag(stage), "");
  cues.give("lost again");
  const intent = await until(
    world,
    CHILD,
    (i) => i.seq === 2 && i.delivery_mode === "RestartStartup",
    "told by restart",
  );
  const told = outputs(await askedByReplacement(stage, CHILD, intent.payload));
  rmSync(flag(stage));
  report.check(
    "both times the model got the general refusal",
    ["c_lost_1", "c_lost_2"].every(
      (id) => told.get(id) === harness.expectedResult(GENERIC_DENY_REASON, command(id)),
    ),
    JSON.stringify([...told]),
  );
  const now = sessionOf(world, CHILD);
  report.check(
    "redelivered once, then the agent is replaced, in the same session",
    intent.soft_redelivery_count === 1 &&
      now?.pid !== before?.pid &&
      now?.harness_session_id === before?.harness_session_id,
    JSON.stringify({ intent, before, now }, null, 1),
  );
  report.check("no refused call has run", !ran(stage, ["c_lost_1", "c_lost_2", "c_lost_3"]));
}

/** Every replacement is killed before it has shown that it knows. The first of them is there already. */
async function exhausted(report: Report, stage: Stage, exit: string): Promise<void> {
  const { world } = stage;
  report.heading(`codex-smoke: every replacement ends before it was told (before ${exit})`);
  const { payload, intent_id: id } = await until(
    world,
    CHILD,
    (i) => i.delivery_mode === "RestartStartup",
    "restarting",
  );
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    await askedByReplacement(stage, CHILD, payload, attempt - 1);
    kill(world, CHILD);
  }
  await until(world, CHILD, (i) => i.delivery_exhausted_at !== null, "exhausted");
  report.check(
    `after ${ATTEMPTS} attempts nothing more is started, and a person is told loudly`,
    sessionOf(world, CHILD) === null && loud(world, id),
  );
  const { diagnoses } = JSON.parse((await world.kk(["repair", CHILD, "--json"])).stdout) as {
    diagnoses: { plans: { kind: string }[] }[];
  };
  const kinds = diagnoses.flatMap((d) => d.plans).map(({ kind }) => kind);
  report.check(
    "kk repair offers exactly the two exits",
    kinds.sort().join() === "discard-delivery,retry-delivery",
    kinds.join(),
  );
}

function loud(world: World, intentId: string): boolean {
  return readRepoDb(world, (db) =>
    db
      .query<{ message: string }, [string]>(
        "SELECT message FROM attention WHERE dedup_key LIKE ? || ':exhausted:%' AND loud = 1",
      )
      .all(intentId),
  ).some(({ message }) => message.includes("kk repair"));
}

async function repair(world: World, kind: string): Promise<void> {
  const { stdout } = await world.kk(["repair", CHILD, "--json"]);
  const { diagnoses } = JSON.parse(stdout) as {
    diagnoses: { plans: { id: string; kind: string }[] }[];
  };
  const plan = diagnoses.flatMap((d) => d.plans).find((p) => p.kind === kind);
  if (plan === undefined) throw new Error(`no plan ${kind}: ${stdout}`);
  const { code, screen } = await world.kkOnTerminal(["repair", CHILD, "--apply", plan.id], "y");
  if (code !== 0) throw new Error(`kk repair --apply ${kind}: exit ${code}\n${screen}`);
}

async function retried(report: Report, stage: Stage): Promise<void> {
  const { world, cues } = stage;
  cues.give("answer");
  await repair(world, "retry-delivery");
  const intent = await until(world, CHILD, (i) => i.state === "Acknowledged", "acknowledged");
  const read = await asked(stage, CHILD, 8);
  report.check(
    "retry-delivery: one fresh cycle, the same text, and the agent shows that it knows",
    intent.delivery_epoch === 2 &&
      intent.acknowledged_by !== "discard-delivery" &&
      outputs(read).get("c_retried")?.includes("v3") === true,
    JSON.stringify(intent, null, 1),
  );
}

async function discarded(report: Report, stage: Stage): Promise<void> {
  const { world, cues, harness } = stage;
  await personMoves(stage, CHILD, "v4");
  cues.give("to be discarded");
  const got = outputs(await asked(stage, CHILD, 9)).get("c_discard");
  const { payload } = await until(
    world,
    CHILD,
    (i) => i.seq === 3 && i.state === "Delivered",
    "delivered",
  );
  report.check(
    "the replacement is told of the next move softly again",
    got === harness.expectedResult(payload, command("c_discard")),
    got,
  );
  kill(world, CHILD);
  await exhausted(report, stage, "discard-delivery");
  await repair(world, "discard-delivery");
  const intent = await until(world, CHILD, (i) => i.state === "Acknowledged", "discarded");
  report.check(
    "discard-delivery: acknowledged without proof, by a person",
    intent.acknowledged_by === "discard-delivery" && intent.delivery_epoch === 1,
    JSON.stringify(intent, null, 1),
  );
  await waitFor(
    async () =>
      sessionOf(world, CHILD) !== null && (await world.state(CHILD)).summary.cascade === "in sync",
    STEP_MS,
    "the agent started again, in sync",
  );
  report.check("the agent is started again, and the call never ran", !ran(stage, ["c_discard"]));
  checkNothingElse(report, stage);
}

function checkNothingElse(report: Report, stage: Stage): void {
  report.check(
    "the child's files are the parent's newest",
    readFileSync(join(stage.at(CHILD), "parser.ts"), "utf8").includes("v4"),
  );
}

function ran(stage: Stage, calls: readonly string[]): boolean {
  return calls.some((id) => existsSync(join(stage.at(CHILD), `${id}.txt`)));
}

/**
 * Delivery by restart on the real Claude Code: the person breaks a blocked batch off with Esc, and later the program is
 * killed after it was told. Both times the replacement's first input is the saved payload, it shows that it knows, and no
 * interrupted tool runs by itself. A replacement whose first input the person takes back has not been told, and is
 * replaced.
 */
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  messageText,
  startModelServer,
  type ModelBlock,
  type ModelScripts,
  type ModelServer,
  type RecordedRequest,
} from "../../../fixtures/model-servers/claude.ts";
import { waitFor } from "../../support/wait.ts";
import { makeWorld, type World } from "../../support/world.ts";
import { makeClaudeHome } from "../claude-home.ts";
import { readRepoDb, sessionOf } from "../story.ts";
import { HARNESS_BIN } from "../install.ts";
import { asked, bash, makeCues, say, STEP_MS, type Cues } from "../model.ts";
import type { LoopbackProof } from "../namespace.ts";
import { kikiFolder, type GateOptions } from "../options.ts";
import type { Report } from "../report.ts";

const WITHOUT_DIALOGS = ["--harness-arg=--permission-mode", "--harness-arg=bypassPermissions"];
/** Longer than the story: a response that the person breaks off before its second call comes. */
const NEVER_MS = 120_000;

interface Stage {
  world: World;
  model: ModelServer;
  cues: Cues;
  parent: string;
  child: string;
}

function scripts(child: string, cues: Cues): ModelScripts {
  const file = (name: string): string => join(child, name);
  const afterKill = async ({ raw }: RecordedRequest): Promise<ModelBlock[]> => {
    if (raw.includes("toolu_recovered")) return [say("Recovered.")];
    if (!lastPayloadIsInput(raw)) await cues.taken("never");
    return [bash(`cat ${file("parser.ts")}`, "toolu_recovered")];
  };
  return {
    parser: [() => [say("Ready.")]],
    tests: [
      () => [bash("echo begun")],
      async () => {
        await cues.taken("slow");
        return [
          bash(`touch ${file("broken-off.txt")}`, "toolu_broken_off"),
          { ...bash(`touch ${file("never.txt")}`, "toolu_never"), delay_ms: NEVER_MS },
        ];
      },
    ],
    after: [() => [bash(`cat ${file("parser.ts")}`, "toolu_after")], () => [say("Read.")]],
    third: [
      () => [bash(`touch ${file("blocked.txt")}`, "toolu_blocked")],
      // Asked by the one that is killed, which never gets an answer, and by its replacement, which puts messages in between.
      afterKill,
      afterKill,
      afterKill,
    ],
    // Asked by the one that is killed, then by its replacement, whose request the person breaks off.
    fourth: [
      async ({ raw }) => {
        if (!raw.includes("toolu_blocked_too"))
          return [bash(`touch ${file("blocked-too.txt")}`, "toolu_blocked_too")];
        await cues.taken("never");
        return [];
      },
    ],
    other: [() => [bash(`cat ${file("parser.ts")}`, "toolu_other")], () => [say("Read.")]],
  };
}

/** The payload of the third move stands in a first input, not only in a refused call. */
function lastPayloadIsInput(raw: string): boolean {
  return raw.lastIndexOf("[[kiki:") > raw.lastIndexOf("toolu_blocked");
}

export async function claudeRestart(
  report: Report,
  _proof: LoopbackProof,
  options: GateOptions,
): Promise<void> {
  report.heading(
    "claude-restart: an agent that cannot be proved to know is told by its first input",
  );
  const dir = mkdtempSync(join(options.folder, "restart-"));
  const cues = makeCues();
  const child = join(dir, "shop-kiki-tests");
  const model = startModelServer({ scripts: scripts(child, cues), recordDir: join(dir, "model") });
  const home = makeClaudeHome(dir, join(dir, "shop"), model.url);
  writeFileSync(home.userSettings, JSON.stringify({ skipDangerousModePermissionPrompt: true }));
  const world = await makeWorld({ dir, path: [HARNESS_BIN, kikiFolder(options.folder)] });
  Object.assign(world.env, home.env);
  const stage: Stage = { world, model, cues, parent: join(dir, "shop-kiki-parser"), child };
  try {
    await twoThreads(stage);
    await brokenOff(report, stage);
    await killedAfterDelivery(report, stage);
    await takenBack(report, stage);
  } catch (error) {
    report.block("kkd.log", readFileSync(join(world.stateDir, "kkd.log"), "utf8").slice(-4_000));
    report.block("the child's screen", world.tmux.run("capture-pane", "-p", "-t", pane(world)).out);
    throw error;
  } finally {
    if (!options.keep) await world.close();
    await model.close();
  }
}

async function twoThreads({ world, model, parent }: Stage): Promise<void> {
  await world.register();
  await world.newThread(["parser", "-m", "SCRIPT:parser", ...WITHOUT_DIALOGS]);
  await change(world, parent, "v1");
  const follow = ["tests", "--follows", "parser", "-m", "SCRIPT:tests", ...WITHOUT_DIALOGS];
  await world.newThread(follow);
  await asked(model, "tests", 1);
}

/** The person changes the parent with jj, and kiki has seen it. */
async function change(world: World, parent: string, version: string): Promise<void> {
  writeFileSync(join(parent, "parser.ts"), `export const version = "${version}";\n`);
  await world.repo.jj(["describe", "-m", `parser ${version}`], parent);
}

async function moved(stage: Stage, version: string): Promise<void> {
  await change(stage.world, stage.parent, version);
  await waitFor(
    async () => (await stage.world.state("tests")).intents.some((i) => i.state === "Detected"),
    STEP_MS,
    "the move detected",
  );
}

async function brokenOff(report: Report, stage: Stage): Promise<void> {
  const { world, model, cues, child } = stage;
  report.heading("Esc in the middle of a blocked batch");
  const first = sessionOf(world, "tests");
  await moved(stage, "v2");
  cues.give("slow");
  await until(stage, (i) => i.state === "Delivered" || i.state === "Materialized", "delivered");
  world.tmux.ok("send-keys", "-t", pane(world), "Escape");
  await screen(world, /[Ii]nterrupted/);
  type(world, "SCRIPT:after now");
  // The new prompt's call is refused, and a new process asks instead, with the same words at the end of its first input.
  const told = await model.waitFor(
    (r) => r.script === "after" && /\[\[kiki:/.test(lastUser(r)),
    STEP_MS,
  );
  await asked(model, "after", 1);
  await until(stage, (i) => i.state === "Acknowledged", "acknowledged");
  report.check(
    "what the person typed follows the payload in the same first input",
    lastUser(told).trimEnd().endsWith("SCRIPT:after now"),
    lastUser(told),
  );
  checkTold(report, stage, told, first);
  report.check(
    "neither call of the batch that was broken off has run",
    !existsSync(join(child, "broken-off.txt")) && !existsSync(join(child, "never.txt")),
  );
}

async function killedAfterDelivery(report: Report, stage: Stage): Promise<void> {
  const { world, model, child } = stage;
  report.heading("The program is killed after it was told");
  await moved(stage, "v3");
  const before = sessionOf(world, "tests");
  type(world, "SCRIPT:third now");
  await asked(model, "third", 1);
  await until(stage, (i) => i.state === "Delivered", "delivered");
  process.kill(before!.pid, "SIGKILL");
  const told = await model.waitFor(
    (r) => r.script === "third" && /\[\[kiki:/.test(lastUser(r)),
    STEP_MS,
  );
  await model.waitFor(
    (r) => r.raw.includes('version = \\\\\\"v3') || r.raw.includes('version = \\"v3'),
    STEP_MS,
  );
  await until(stage, (i) => i.state === "Acknowledged", "acknowledged");
  checkTold(report, stage, told, before);
  report.check("the call that was blocked has not run", !existsSync(join(child, "blocked.txt")));
  await waitFor(
    async () => (await world.state("tests")).summary.cascade === "in sync",
    STEP_MS,
    "in sync",
  );
}

async function takenBack(report: Report, stage: Stage): Promise<void> {
  const { world, model, child } = stage;
  report.heading("What the replacement was started with is taken back with Esc");
  await screen(world, /● Recovered\./);
  await screen(world, /bypass permissions on(?!.*esc to interrupt)/);
  await moved(stage, "v4");
  const before = sessionOf(world, "tests");
  type(world, "SCRIPT:fourth now");
  await asked(model, "fourth", 1);
  await until(stage, (i) => i.state === "Delivered", "delivered");
  process.kill(before!.pid, "SIGKILL");
  const told = (script: string) => (r: RecordedRequest) =>
    r.script === script && /\[\[kiki:/.test(lastUser(r)) && (r.body.tools ?? []).length > 0;
  const input = lastUser(await model.waitFor(told("fourth"), STEP_MS));
  const mark = /\[\[kiki:[^\]]+\]\]/.exec(input)?.[0] ?? "?";
  const first = sessionOf(world, "tests");
  world.tmux.ok("send-keys", "-t", pane(world), "Escape");
  // All of it is in the composer, which ends with the line below it.
  await screen(world, /SCRIPT:fourth now\n─/);
  world.tmux.ok("send-keys", "-t", pane(world), "C-c");
  await screen(world, /^❯\s*\n─/m);
  type(world, "SCRIPT:other now");
  const plain = await model.waitFor(
    (r) => r.script === "other" && (r.body.tools ?? []).length > 0,
    STEP_MS,
  );
  report.check(
    "what was taken back is not in the next request",
    input.includes(mark) && !plain.raw.includes(mark),
    lastUser(plain),
  );
  const again = await model.waitFor(told("other"), STEP_MS);
  await until(stage, (i) => i.state === "Acknowledged", "acknowledged");
  report.check(
    "its call acknowledged nothing: another process was started, with the payload and what was typed",
    lastUser(again).startsWith(newest(world).payload) &&
      lastUser(again).trimEnd().endsWith("SCRIPT:other now") &&
      sessionOf(world, "tests")?.pid !== first?.pid &&
      attemptsAt(world) === 2,
    `${attemptsAt(world)} attempts; ${lastUser(again)}`,
  );
  report.check(
    "the call that was blocked has not run",
    !existsSync(join(child, "blocked-too.txt")),
  );
}

/** Processes that were started to tell of the newest intent. */
function attemptsAt(world: World): number {
  const sql = `SELECT count(*) AS n FROM agent_sessions WHERE startup_intent_id =
    (SELECT intent_id FROM sync_intents ORDER BY seq DESC LIMIT 1)`;
  return readRepoDb(world, (db) => db.query<{ n: number }, []>(sql).get())?.n ?? 0;
}

function checkTold(
  report: Report,
  { world }: Stage,
  told: RecordedRequest,
  before: ReturnType<typeof sessionOf>,
): void {
  const intent = newest(world);
  const text = lastUser(told);
  report.check(
    "the replacement's first input is the saved payload, byte for byte, with its mark",
    text.startsWith(intent.payload) && /\[\[kiki:[^\]]+\]\]/.test(text),
    text,
  );
  const now = sessionOf(world, "tests");
  report.check(
    "another process, the same conversation",
    now !== null &&
      before !== null &&
      now.pid !== before.pid &&
      now.harness_session_id === before.harness_session_id,
    JSON.stringify({ before, now }),
  );
  report.check(
    "acknowledged by restart, first attempt",
    intent.delivery_mode === "RestartStartup" && intent.delivery_epoch === 1,
    JSON.stringify(intent, null, 1),
  );
}

interface Intent {
  state: string;
  payload: string;
  delivery_mode: string | null;
  delivery_epoch: number;
}

function newest(world: World): Intent {
  const row = readRepoDb(world, (db) =>
    db.query<Intent, []>("SELECT * FROM sync_intents ORDER BY seq DESC LIMIT 1").get(),
  );
  if (row === null) throw new Error("there is no intent");
  return row;
}

async function until({ world }: Stage, test: (i: Intent) => boolean, what: string): Promise<void> {
  await waitFor(
    () => test(newest(world)),
    STEP_MS,
    () => `${what}: ${newest(world).state}`,
  );
}

/** Text of the last message that is a person's, without what the harness adds around it. */
function lastUser(request: RecordedRequest): string {
  const texts = request.body.messages.filter((m) => m.role === "user").map(messageText);
  return texts.findLast((text) => text.includes("[kiki]") || text.includes("SCRIPT:")) ?? "";
}

function pane(world: World): string {
  const line = world.tmux
    .run("list-panes", "-a", "-F", "#{session_name} #{pane_id}")
    .out.split("\n")
    .find((text) => /-tests /.test(text));
  return line?.split(" ")[1] ?? "";
}

function screen(world: World, text: RegExp): Promise<unknown> {
  return waitFor(
    () => text.test(world.tmux.run("capture-pane", "-p", "-t", pane(world)).out),
    STEP_MS,
    () => `${text}:\n${world.tmux.run("capture-pane", "-p", "-t", pane(world)).out}`,
  );
}

function type(world: World, text: string): void {
  world.tmux.ok("send-keys", "-t", pane(world), "-l", "--", text);
  world.tmux.ok("send-keys", "-t", pane(world), "Enter");
}

/**
 * The demo's story on the real Claude Code: started by `kk new` through the adapter's isolated flags in real tmux, with
 * a scripted model on loopback. What the model was really told is read from its recorded requests.
 */
import {
  existsSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { startModelServer, type ModelServer } from "../../../fixtures/model-servers/claude.ts";
import { waitFor } from "../../support/wait.ts";
import { makeWorld, type World } from "../../support/world.ts";
import { makeClaudeHome, type ClaudeHome } from "../claude-home.ts";
import { CLAUDE, CLAUDE_VERSION, HARNESS_BIN } from "../install.ts";
import { asked, makeCues, STEP_MS, type Cues } from "../model.ts";
import type { LoopbackProof } from "../namespace.ts";
import type { Report } from "../report.ts";
import { checkAcknowledged, checkMove, detected, explain, sessionOf, show } from "../story.ts";
import { kikiFolder, type GateOptions } from "../options.ts";
import {
  CHILD_STEP,
  FIRST_BATCH,
  PARENT_STEP,
  SECOND_BATCH,
  storyScripts,
  TRACES,
} from "./agents.ts";
import { checkRecord, expected, refusals } from "./moves.ts";

const FAMILY = { child: "tests", parent: "parser" };
const CONTROL_MS = 60_000;
/** Runs every tool without a dialog; its warning is answered beforehand in the user's settings. */
const WITHOUT_DIALOGS = ["--harness-arg=--permission-mode", "--harness-arg=bypassPermissions"];

interface Stage {
  world: World;
  home: ClaudeHome;
  model: ModelServer;
  cues: Cues;
  parent: string;
  child: string;
}

export async function claudeSmoke(
  report: Report,
  _proof: LoopbackProof,
  options: GateOptions,
): Promise<void> {
  report.heading("claude-smoke: the demo's story on the real Claude Code");
  const stage = await setUp(
    mkdtempSync(join(options.folder, "smoke-")),
    kikiFolder(options.folder),
  );
  try {
    const kept = trackedFiles(stage);
    await twoThreads(report, stage);
    const first = await parentAmends(report, stage);
    const second = await parentAdds(report, stage);
    report.heading("What the agents' own settings did");
    recordHolds(report, stage, [
      [FIRST_BATCH, first],
      [SECOND_BATCH, second],
    ]);
    report.check(
      "not one hook of user, project or local settings has run",
      stage.home.markers().length === 0,
      stage.home.markers().join("\n"),
    );
    for (const [file, text] of kept)
      report.check(
        `${file.slice(stage.world.dir.length + 1)} is byte-identical`,
        readFileSync(file, "utf8") === text,
      );
    await control(report, stage);
  } catch (error) {
    explain(report, stage.world);
    throw error;
  } finally {
    if (!options.keep) await stage.world.close();
    await stage.model.close();
  }
}

async function setUp(dir: string, kiki: string): Promise<Stage> {
  const cues = makeCues();
  const parent = join(dir, "shop-kiki-parser");
  const child = join(dir, "shop-kiki-tests");
  const model = startModelServer({
    scripts: storyScripts(parent, child, cues),
    recordDir: join(dir, "model"),
  });
  const home = makeClaudeHome(dir, join(dir, "shop"), model.url);
  writeFileSync(
    home.userSettings,
    home.markedSettings("user", { skipDangerousModePermissionPrompt: true }),
  );
  const world = await makeWorld({
    dir,
    path: [HARNESS_BIN, kiki],
    files: {
      "CLAUDE.md": "Tests go beside what they test.\n",
      ".claude/settings.json": home.markedSettings("project"),
      ".claude/settings.local.json": home.markedSettings("local"),
    },
  });
  Object.assign(world.env, home.env);
  await world.register();
  return { world, home, model, cues, parent, child };
}

/** Settings kiki must never write, with the bytes they have before the first thread. */
function trackedFiles({ world, home, parent, child }: Stage): Map<string, string> {
  const source = (name: string): string => readFileSync(join(world.repo.root, name), "utf8");
  const kept = new Map([[home.userSettings, readFileSync(home.userSettings, "utf8")]]);
  for (const root of [world.repo.root, parent, child]) {
    for (const name of [".claude/settings.json", ".claude/settings.local.json"])
      kept.set(join(root, name), source(name));
  }
  return kept;
}

async function twoThreads(report: Report, stage: Stage): Promise<void> {
  const { world, model } = stage;
  report.say(
    "A repository with settings of its own in every scope, and two threads made by `kk new`.",
  );
  await world.newThread(["parser", "-m", "Write the parser. SCRIPT:parser", ...WITHOUT_DIALOGS]);
  await asked(model, "parser", PARENT_STEP.written);
  await world.newThread([
    "tests",
    "--follows",
    "parser",
    "-m",
    "Test the parser. SCRIPT:tests",
    ...WITHOUT_DIALOGS,
  ]);
  await asked(model, "tests", CHILD_STEP.written);
  await show(report, world);
  for (const name of ["parser", "tests"]) {
    const session = sessionOf(world, name);
    const program = session === null ? "" : readlinkSync(`/proc/${session.pid}/exe`);
    report.check(
      `${name}: the agent is Claude Code ${CLAUDE_VERSION} from .tools/harness, pid ${session?.pid}`,
      session?.harness_version === CLAUDE_VERSION && program === realpathSync(CLAUDE),
      `${session?.harness_version} ${program}`,
    );
    report.check(
      `${name}: it runs in this namespace`,
      session !== null && network(session.pid) === network("self"),
    );
  }
  const threads = await world.threads();
  report.check(
    "both threads are Active",
    threads.length === 2 && threads.every((t) => t.lifecycle === "Active"),
  );
  report.check(
    "the child stands on the parent's revision",
    readFileSync(join(stage.child, "parser.ts"), "utf8").includes("v1"),
  );
}

async function parentAmends(report: Report, { world, model, cues, child }: Stage): Promise<string> {
  report.heading("The parent amends; the child dispatches three tools at once");
  cues.give("amend");
  await asked(model, "parser", PARENT_STEP.amended);
  await detected(world, FAMILY, "NativeRewrite");
  await show(report, world);
  report.check(
    "the child is pending, not one of its files has changed",
    readFileSync(join(child, "parser.ts"), "utf8").includes("v1"),
  );
  const seenBefore = Date.now();
  cues.give("three tools");
  const next = await asked(model, "tests", CHILD_STEP.afterFirst);
  const move = {
    kind: "NativeRewrite",
    seq: 1,
    child: "tests",
    calls: FIRST_BATCH,
    told: refusals(next),
    askedAt: next.at,
    expected,
    workspace: child,
    brings: { "parser.ts": "v2" },
    seenBefore,
  } as const;
  const payload = checkMove(report, world, move);
  report.block("what the model was told, three times", payload);
  const reread = await asked(model, "tests", CHILD_STEP.reread);
  report.check(
    "the child re-reads parser.ts and sees v2",
    reread.raw.includes('version = \\\\\\"v2') || reread.raw.includes('version = \\"v2'),
  );
  checkAcknowledged(report, world, "tests", 1);
  return payload;
}

async function parentAdds(report: Report, { world, model, cues, child }: Stage): Promise<string> {
  report.heading("The parent adds a revision; the child's next batch is blocked");
  cues.give("add");
  await asked(model, "parser", PARENT_STEP.added);
  await detected(world, FAMILY, "ParentAdvance");
  await show(report, world);
  const seenBefore = Date.now();
  cues.give("go on");
  const next = await asked(model, "tests", CHILD_STEP.afterSecond);
  const move = {
    kind: "ParentAdvance",
    seq: 2,
    child: "tests",
    calls: SECOND_BATCH,
    told: refusals(next),
    askedAt: next.at,
    expected,
    workspace: child,
    brings: { "lexer.ts": "tokens" },
    seenBefore,
  } as const;
  const payload = checkMove(report, world, move);
  report.block("what the model was told, three times", payload);
  const done = await asked(model, "tests", CHILD_STEP.done);
  report.check("the child's next call runs", done.raw.includes("all green"));
  checkAcknowledged(report, world, "tests", 2);
  await waitFor(
    async () => (await world.state("tests")).summary.cascade === "in sync",
    STEP_MS,
    "the child in sync",
  );
  await show(report, world);
  const after = await world.state("tests");
  report.check(
    "the child's revision stands on the parent's new one",
    after.baseCommit !== null && after.baseCommit === (await world.state("parser")).head,
  );
  report.check(
    "its own file is untouched",
    readFileSync(join(child, "parser.test.ts"), "utf8") === "// parses a sum\n",
  );
  const traces = TRACES.filter((name) => existsSync(join(child, name)));
  report.check("no blocked call has left a trace", traces.length === 0, traces.join(", "));
  return payload;
}

function recordHolds(
  report: Report,
  { world, home, child }: Stage,
  batches: [readonly string[], string][],
): void {
  const session = sessionOf(world, "tests")?.harness_session_id ?? "";
  const file = join(
    home.configDir,
    "projects",
    child.replace(/[^A-Za-z0-9]/g, "-"),
    `${session}.jsonl`,
  );
  for (const [calls, payload] of batches) checkRecord(report, file, calls, payload);
}

/** The same settings without kiki's flags: their hooks do run. Otherwise their silence would prove nothing. */
async function control(report: Report, { world, home }: Stage): Promise<void> {
  const child = Bun.spawn([CLAUDE, "-p", "SCRIPT:control", "--allowedTools", "Bash"], {
    cwd: world.repo.root,
    env: world.env,
    stdio: ["ignore", "pipe", "pipe"],
    timeout: CONTROL_MS,
  });
  await Promise.all([child.exited, child.stdout.text(), child.stderr.text()]);
  const scopes = ["user", "project", "local"].filter((scope) =>
    home.markers().includes(`${scope}-PreToolUse`),
  );
  report.check(
    "control: without kiki the same settings' hooks all run",
    scopes.length === 3,
    home.markers().join(", "),
  );
}

function network(pid: number | "self"): string {
  return readlinkSync(`/proc/${pid}/ns/net`);
}

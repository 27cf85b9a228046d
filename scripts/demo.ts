/**
 * `npm run demo`: the main job, from an empty folder, on real jj and real tmux, with the bundled scripted agent. Every
 * claim it prints is checked first; the exit code is 0 only when all of them held. `-- --keep` leaves the tmux session.
 */
import { existsSync, mkdtempSync, readFileSync, realpathSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build, isBuilt } from "./build.ts";
import { errorLine } from "../src/core/errors.ts";
import { initialised, type World } from "../tests/support/world.ts";
import { moments } from "../tests/support/scenario.ts";
import { waitFor } from "../tests/support/wait.ts";
import { parentScenario, childScenario } from "./demo/agents.ts";

const keep = process.argv.includes("--keep");
const colour = process.stdout.isTTY && !("NO_COLOR" in process.env);
let claims = 0;
let broken = 0;

function heading(text: string): void {
  console.log(`\n${colour ? `\u001b[1m${text}\u001b[0m` : text}\n${"─".repeat(text.length)}`);
}

function say(text: string): void {
  console.log(text);
}

/** Prints a claim with its verdict. A claim that does not hold is said, and decides the exit code. */
function claim(text: string, holds: boolean): void {
  claims += 1;
  if (!holds) broken += 1;
  console.log(`  ${holds ? "✓" : "✗"} ${text}`);
}

function block(title: string, text: string): void {
  console.log(`\n  $ ${title}`);
  for (const line of text.trimEnd().split("\n")) console.log(`  │ ${line}`);
  console.log("");
}

async function show(world: World, thread: string): Promise<void> {
  block("kk ls", (await world.kk(["ls"])).stdout);
  block(`kk status ${thread}`, (await world.kk(["status", thread])).stdout);
}

async function story(world: World): Promise<void> {
  const { repo } = world;
  const log = join(world.dir, "tests-agent.ndjson");

  heading("1. A repository, two threads");
  say("A jj repository in a throw-away folder, registered with `kk init`.");
  const alone = await world.kk(["new", "parser"]);
  claim(
    "without a person's yes on a terminal nothing is made: the plan is printed, exit code 4",
    alone.code === 4 &&
      alone.stdout.startsWith('New thread "parser"') &&
      (await world.threads()).length === 0,
  );
  await world.newThread([
    "parser",
    "-m",
    world.scenario("parser", parentScenario(world), "Write the parser."),
  ]);
  await waitFor(
    () => existsSync(world.signal("parser-written")),
    60_000,
    "the parser agent's first revision",
  );
  await world.newThread([
    "tests",
    "--follows",
    "parser",
    "-m",
    world.scenario("tests", childScenario(world, log), "Test the parser."),
  ]);
  await waitFor(
    () => existsSync(world.signal("tests-written")),
    60_000,
    "the tests agent's first revision",
  );
  const tests = (await world.state("tests")).workspacePath;
  await show(world, "tests");
  const first = await world.threads();
  claim(
    "two threads are Active, each with its own workspace, bookmark and tmux session",
    first.length === 2 &&
      first.every(
        (t) => t.lifecycle === "Active" && t.bookmark !== null && t.tmuxSessionId !== null,
      ),
  );
  claim(
    "`tests` follows `parser` and is in sync",
    first.some((t) => t.name === "tests" && t.followsName === "parser" && t.cascade === "in sync"),
  );
  claim(
    "the child stands on the parent's revision: it sees parser.ts",
    readFileSync(join(tests, "parser.ts"), "utf8").includes("v1"),
  );

  heading("2. The parent amends its revision while the child is at work");
  world.raise("amend");
  await waitFor(
    async () => (await world.state("tests")).intents.some((i) => i.state === "Detected"),
    30_000,
    "the amendment noticed",
  );
  await show(world, "tests");
  const pending = await world.state("tests");
  claim(
    "kiki has noticed: the child is `pending`, a NativeRewrite waits for its next tool boundary",
    pending.summary.cascade === "pending" &&
      pending.intents.some((i) => i.kind === "NativeRewrite" && i.state === "Detected"),
  );
  claim(
    "not one file of the child has changed yet",
    readFileSync(join(tests, "parser.ts"), "utf8").includes("v1"),
  );

  heading("3. The child's agent dispatches three tools at once");
  world.raise("three-tools");
  await waitFor(() => existsSync(world.signal("re-read")), 60_000, "the child's agent going on");
  const batch = moments(log).filter(
    (m) => m.kind === "pre_end" && (m.tool_use_id ?? "").startsWith("three-"),
  );
  const texts = resultsOf(log, "three-");
  const intent = (await world.state("tests")).intents[0];
  claim(
    "all three calls were blocked at the boundary",
    batch.length === 3 && batch.every((m) => m.decision === "deny"),
  );
  claim(
    "none of the three ran",
    !moments(log).some(
      (m) => m.kind === "tool_start" && (m.tool_use_id ?? "").startsWith("three-"),
    ),
  );
  claim(
    "all three got the same explanation",
    texts.length === 3 && new Set(texts.map(unwrap)).size === 1,
  );
  const payload = unwrap(texts[0] ?? "");
  block("(what the agent was told)", payload);
  claim(
    "the explanation names the parent, the file and the change",
    payload.includes("parser") &&
      payload.includes("M parser.ts") &&
      payload.includes('+export const version = "v2"'),
  );
  claim(
    "files and agent moved together: the child now has the new parser.ts",
    readFileSync(join(tests, "parser.ts"), "utf8").includes("v2"),
  );
  claim(
    "the agent's own file is untouched",
    readFileSync(join(tests, "parser.test.ts"), "utf8").includes("parses a sum"),
  );
  claim(
    "it re-read the file and saw the new content",
    resultsOf(log, "reread-").some((r) => r.includes("v2")),
  );
  claim("the delivery is acknowledged by the agent's next turn", intent?.state === "Acknowledged");

  heading("4. The parent adds a revision");
  world.raise("add");
  await waitFor(
    async () =>
      (await world.state("tests")).intents.some(
        (i) => i.kind === "ParentAdvance" && i.state === "Detected",
      ),
    30_000,
    "the new revision noticed",
  );
  world.raise("go-on");
  await waitFor(() => existsSync(world.signal("done")), 60_000, "the child's agent finishing");
  await waitFor(
    async () => (await world.state("tests")).summary.cascade === "in sync",
    30_000,
    "the child in sync",
  );
  await show(world, "tests");
  const after = await world.state("tests");
  const parserHead = (await world.state("parser")).head;
  claim(
    "the child's revisions were rebased onto the parent's new one",
    after.baseCommit !== null && after.baseCommit === parserHead,
  );
  claim("lexer.ts has arrived in the child's workspace", existsSync(join(tests, "lexer.ts")));
  // A revision is added in two operations; the second may come when the first one's work is bound, and is covered by it.
  const acknowledged = after.intents.filter((i) => i.state === "Acknowledged");
  claim(
    "both moves are acknowledged, nothing is pending",
    acknowledged.length === 2 &&
      after.intents.every((i) => i.state === "Acknowledged" || i.state === "Superseded"),
  );
  const graph = await repo.jj([
    "log",
    "--ignore-working-copy",
    "-r",
    "::(kk/tests | kk/parser)",
    "-T",
    'separate(" ", change_id.shortest(4), bookmarks, description.first_line()) ++ "\\n"',
  ]);
  block("jj log", graph);
}

/** What the model got for calls whose id starts with `prefix`. */
function resultsOf(log: string, prefix: string): string[] {
  return moments(log)
    .filter(
      (m) =>
        m.result !== undefined && (m.tool_use_id ?? "").startsWith(prefix) && m.kind === "result",
    )
    .map((m) => m.result!);
}

function unwrap(text: string): string {
  return text.replace(/^PreToolUse:\w+ hook error: /, "");
}

async function main(): Promise<void> {
  const started = performance.now();
  const dist = join(import.meta.dir, "../dist");
  if (!isBuilt(dist)) {
    say("building dist/kiki");
    await build([], dist);
  }
  heading("kiki demo: a parent thread moves, the child's agent is told");
  // A folder of the demo's own: what is kept outlives this process.
  const world = await initialised({ dir: realpathSync(mkdtempSync(join(tmpdir(), "kiki-demo-"))) });
  let failure: unknown;
  try {
    await story(world);
  } catch (error) {
    failure = error;
    await explain(world);
  }
  if (keep) {
    const state = `KIKI_PATHS__USER_STATE_DIR=${world.stateDir}`;
    say(`\nKept in ${world.dir}. Look at it:\n  tmux -S ${world.tmux.socket} attach`);
    say(`  cd ${world.repo.root} && ${state} ${join(dist, "kk")} ls`);
    say(
      `End it:\n  tmux -S ${world.tmux.socket} kill-server; ${state} ${join(dist, "kk")} daemon stop; rm -rf ${world.dir}`,
    );
  } else {
    await world.close();
    claim("nothing is left behind: no folder, no daemon, no tmux server", !existsSync(world.dir));
  }
  if (failure !== undefined) console.error(`\nThe demo stopped: ${errorLine(failure)}`);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`\n${claims - broken} of ${claims} claims held, ${seconds} s`);
  process.exit(failure === undefined && broken === 0 ? 0 : 1);
}

/** For whoever has to find out why: the daemon's log and the agents' screens. */
async function explain(world: World): Promise<void> {
  const logFile = join(world.stateDir, "kkd.log");
  if (existsSync(logFile))
    block("kkd.log", readFileSync(logFile, "utf8").split("\n").slice(-40).join("\n"));
  for (const line of world.tmux
    .run("list-panes", "-a", "-F", "#{pane_id} #{session_name}")
    .out.split("\n")) {
    const [pane = ""] = line.split(" ");
    if (pane !== "") block(line, world.tmux.run("capture-pane", "-p", "-t", pane).out.trimEnd());
  }
}

await main();

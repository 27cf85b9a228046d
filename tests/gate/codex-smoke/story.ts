/**
 * The demo's story on the real Codex: parent amended, child blocked, told, reading again; a revision added; then a model
 * that asks for two calls at once, twice, which costs soft delivery, so that the third move is told by a restart.
 */
import { existsSync, readFileSync, readlinkSync, realpathSync } from "node:fs";
import { join } from "node:path";
import type { CodexScripts } from "../../../fixtures/model-servers/codex.ts";
import { nativeProgram } from "../../../src/backends/harness/codex/program.ts";
import { waitFor } from "../../support/wait.ts";
import { exec, patch, patchText, say } from "../codex-model.ts";
import { CODEX, CODEX_VERSION } from "../install.ts";
import { STEP_MS, type Cues } from "../model.ts";
import type { GateOptions } from "../options.ts";
import type { Report } from "../report.ts";
import {
  checkAcknowledged,
  checkMove,
  detected,
  eventsOf,
  sessionOf,
  show,
  until,
} from "../story.ts";
import {
  after,
  asked,
  askedByReplacement,
  codexThread,
  firstInput,
  onceTold,
  onStage,
  outputs,
  type Stage,
} from "../codex-stage.ts";

const FAMILY = { child: "tests", parent: "parser" };
/** What each call that must be blocked is, for the wrapper of its refusal. */
const CALLS: Readonly<Record<string, { toolName: string; command: string }>> = {
  c_first: { toolName: "Bash", command: "touch first.txt # é 'q'" },
  c_second: { toolName: "apply_patch", command: patchText("second.txt") },
};

/** A command of the agent's: its login shell need not know where jj is. */
const jj = (words: string): string => `${Bun.which("jj") ?? "jj"} ${words}`;
/** Two calls whose times show whether they ran side by side. */
/** Each notes when it began and ended. */
const pair = (name: string) =>
  [1, 2].map((n) => {
    const file = `${name}-${n}.txt`;
    return exec(`c_${name}_${n}`, `date +%s%N > ${file}; sleep 0.7; date +%s%N >> ${file}`);
  });

const scripts = (cues: Cues): CodexScripts => ({
  parser: [
    [
      exec(
        "p_write",
        `echo 'export const version = "v1";' > parser.ts; ${jj("describe -m 'parser: split'")}`,
      ),
    ],
    after(cues, "amend", [
      exec("p_amend", `echo 'export const version = "v2";' > parser.ts; ${jj("status")}`),
    ]),
    after(cues, "add", [
      exec(
        "p_add",
        `${jj("new -m 'lexer: tokens'")} && echo 'export const tokens = 1;' > lexer.ts; ${jj("status")}`,
      ),
    ]),
    after(cues, "once more", [
      exec("p_more", `echo 'export const tokens = 2;' > lexer.ts; ${jj("status")}`),
    ]),
    [say("Parser and lexer are done.")],
  ],
  tests: [
    [
      exec(
        "c_begin",
        `echo '// parses a sum' > parser.test.ts; ${jj("describe -m 'tests: a sum'")}`,
      ),
    ],
    after(cues, "first", [exec("c_first", CALLS["c_first"]!.command)]),
    [exec("c_reread", "cat parser.ts")],
    after(cues, "second", [patch("c_second", "second.txt")]),
    [exec("c_reread_2", "cat lexer.ts")],
    after(cues, "two at once", pair("sib")),
    after(cues, "again", pair("again")),
    after(cues, "third", [exec("c_third", "touch third.txt")]),
    onceTold(cues, [exec("c_reread_3", "cat lexer.ts")]),
    [say("The tests are done.")],
  ],
});

export function demo(report: Report, options: GateOptions): Promise<void> {
  return onStage(report, options, "codex-story", scripts, async (stage) => {
    await twoThreads(report, stage);
    await parentMoves(report, stage);
    await twoAtOnce(report, stage);
    await toldByRestart(report, stage);
  });
}

async function twoThreads(report: Report, stage: Stage): Promise<void> {
  const { world } = stage;
  await codexThread(stage, "parser");
  await asked(stage, "parser", 1);
  await codexThread(stage, "tests", "--follows", "parser");
  await asked(stage, "tests", 1);
  await show(report, world);
  for (const name of ["parser", "tests"]) {
    const session = sessionOf(world, name);
    const program = session === null ? "" : readlinkSync(`/proc/${session.pid}/exe`);
    report.check(
      `${name}: the agent is Codex ${CODEX_VERSION} from .tools/harness, pid ${session?.pid}`,
      session?.harness_version === CODEX_VERSION && program === realpathSync(nativeProgram(CODEX)),
      `${session?.harness_version} ${program}`,
    );
  }
  report.check(
    "the child stands on the parent's revision",
    readFileSync(join(stage.at("tests"), "parser.ts"), "utf8").includes("v1"),
  );
}

const expected = (stage: Stage) => (id: string, payload: string) =>
  stage.harness.expectedResult(payload, CALLS[id]!);

async function parentMoves(report: Report, stage: Stage): Promise<void> {
  const { world, cues } = stage;
  const workspace = stage.at("tests");
  report.heading("codex-smoke: the parent amends; the child's next call is blocked");
  cues.give("amend");
  await asked(stage, "parser", 2);
  await detected(world, FAMILY, "NativeRewrite");
  report.check(
    "the child is pending, not one of its files has changed",
    readFileSync(join(workspace, "parser.ts"), "utf8").includes("v1"),
  );
  let seenBefore = Date.now();
  cues.give("first");
  const next = await asked(stage, "tests", 2);
  const move = { child: "tests", workspace, expected: expected(stage) };
  const payload = checkMove(report, world, {
    ...move,
    kind: "NativeRewrite",
    seq: 1,
    calls: ["c_first"],
    told: outputs(next),
    askedAt: next.at,
    brings: { "parser.ts": "v2" },
    seenBefore,
  });
  report.block("what the model was told", payload);
  const reread = await asked(stage, "tests", 3);
  report.check(
    "the child re-reads parser.ts and sees v2",
    outputs(reread).get("c_reread")?.includes("v2") === true,
  );
  checkAcknowledged(report, world, "tests", 1);

  report.heading("codex-smoke: the parent adds a revision; a patch of the child's is blocked");
  cues.give("add");
  await asked(stage, "parser", 3);
  await detected(world, FAMILY, "ParentAdvance");
  seenBefore = Date.now();
  cues.give("second");
  const after2 = await asked(stage, "tests", 4);
  checkMove(report, world, {
    ...move,
    kind: "ParentAdvance",
    seq: 2,
    calls: ["c_second"],
    told: outputs(after2),
    askedAt: after2.at,
    brings: { "lexer.ts": "tokens" },
    seenBefore,
  });
  const reread2 = await asked(stage, "tests", 5);
  report.check(
    "the child reads lexer.ts",
    outputs(reread2).get("c_reread_2")?.includes("tokens") === true,
  );
  checkAcknowledged(report, world, "tests", 2);
  await waitFor(
    async () => (await world.state("tests")).summary.cascade === "in sync",
    STEP_MS,
    "the child in sync",
  );
  const state = await world.state("tests");
  report.check(
    "the child's revision stands on the parent's new one, and no blocked call has left a trace",
    state.baseCommit !== null &&
      state.baseCommit === (await world.state("parser")).head &&
      !["first.txt", "second.txt"].some((name) => existsSync(join(workspace, name))),
  );
}

async function twoAtOnce(report: Report, stage: Stage): Promise<void> {
  const { world, cues } = stage;
  report.heading("codex-smoke: two calls in one response");
  const times = (name: string): { from: number; to: number } => {
    const text = readFileSync(join(stage.at("tests"), `${name}.txt`), "utf8");
    const [from = 0, to = 0] = text.split("\n").map((line) => Number(line) / 1e6);
    return { from, to };
  };
  for (const [name, cue, step] of [
    ["sib", "two at once", 6],
    ["again", "again", 7],
  ] as const) {
    cues.give(cue);
    await asked(stage, "tests", step);
    const [one, two] = [times(`${name}-1`), times(`${name}-2`)];
    // Their hooks race: either may come first.
    const gap = Math.max(two.from - one.to, one.from - two.to);
    report.check(
      `${name}: both run, one only after the other was over (${gap.toFixed(0)} ms later)`,
      gap > 0,
      JSON.stringify({ one, two }),
    );
  }
  const violations = eventsOf(world, "tests", "serial_violation");
  report.check(
    "each is a durable serial_violation",
    violations.length === 2 && violations.map((e) => e["violations"]).join() === "1,2",
    JSON.stringify(violations),
  );
  const capabilities = JSON.parse(sessionOf(world, "tests")?.capabilities_json ?? "{}") as {
    parallel_batch_boundary?: boolean;
  };
  report.check(
    "the second has cost this incarnation its boundary",
    eventsOf(world, "tests", "boundary_lost").length === 1 &&
      capabilities.parallel_batch_boundary === false,
    JSON.stringify(capabilities),
  );
}

async function toldByRestart(report: Report, stage: Stage): Promise<void> {
  const { world, cues } = stage;
  report.heading("codex-smoke: without a boundary, the next move is told by a restart");
  const before = sessionOf(world, "tests");
  cues.give("once more");
  await asked(stage, "parser", 4);
  await detected(world, FAMILY, "NativeRewrite");
  cues.give("third");
  const acknowledged = await until(
    world,
    "tests",
    (i) => i.seq === 3 && i.state === "Acknowledged",
    "told",
  );
  const told = await askedByReplacement(stage, "tests", acknowledged.payload);
  report.check(
    "the replacement's first input is the saved payload, byte for byte, with its mark",
    firstInput(told).startsWith(acknowledged.payload),
    firstInput(told),
  );
  const now = sessionOf(world, "tests");
  report.check(
    "another process, the same session, told by RestartStartup at the first attempt",
    now !== null &&
      before !== null &&
      now.pid !== before.pid &&
      now.harness_session_id === before.harness_session_id &&
      acknowledged.delivery_mode === "RestartStartup" &&
      acknowledged.delivery_epoch === 1,
    JSON.stringify({ before, now, acknowledged }),
  );
  const done = await asked(stage, "tests", 9);
  report.check(
    "it reads what came",
    outputs(done).get("c_reread_3")?.includes("tokens = 2") === true,
  );
  report.check(
    "the call that met the restart has not run",
    !existsSync(join(stage.at("tests"), "third.txt")),
  );
}

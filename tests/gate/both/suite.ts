/** both: a real Claude Code and a real Codex follow the same parent; one move, both blocked, told byte for byte, acknowledged. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startModelServer } from "../../../fixtures/model-servers/claude.ts";
import { startCodexModelServer } from "../../../fixtures/model-servers/codex.ts";
import { waitFor } from "../../support/wait.ts";
import { makeWorld } from "../../support/world.ts";
import { makeClaudeHome } from "../claude-home.ts";
import { expected as claudeExpects, refusals } from "../claude-smoke/moves.ts";
import { exec, say as codexSays } from "../codex-model.ts";
import {
  asked as codexAsked,
  codexThread,
  EXPECTED,
  outputs,
  personMoves,
} from "../codex-stage.ts";
import { HARNESS_BIN } from "../install.ts";
import { asked, bash, makeCues, say, STEP_MS } from "../model.ts";
import type { LoopbackProof } from "../namespace.ts";
import { kikiFolder, type GateOptions } from "../options.ts";
import type { Report } from "../report.ts";
import { checkAcknowledged, checkMove, explain, sessionOf, show } from "../story.ts";

const WITHOUT_DIALOGS = ["--harness-arg=--permission-mode", "--harness-arg=bypassPermissions"];
const CHILDREN = ["docs", "tests"] as const;

export async function both(
  report: Report,
  _proof: LoopbackProof,
  options: GateOptions,
): Promise<void> {
  report.heading("both: Claude Code and Codex follow the same parent");
  const dir = mkdtempSync(join(options.folder, "both-"));
  const cues = makeCues();
  const at = (thread: string): string => join(dir, `shop-kiki-${thread}`);
  const blocked = (thread: string): string => `touch ${at(thread)}/blocked.txt`;
  const claude = startModelServer({
    scripts: {
      parser: [() => [say("Ready.")]],
      docs: [
        () => [bash("echo begun", "toolu_begin")],
        async () => {
          await cues.taken("go");
          return [bash(blocked("docs"), "toolu_blocked")];
        },
        () => [bash(`cat ${at("docs")}/parser.ts`, "toolu_read")],
        () => [say("Done.")],
      ],
    },
    recordDir: join(dir, "claude-model"),
  });
  const codex = startCodexModelServer({
    scripts: {
      tests: [
        [exec("c_begin", "echo begun")],
        async () => {
          await cues.taken("go");
          return [exec("c_blocked", blocked("tests"))];
        },
        [exec("c_read", "cat parser.ts")],
        [codexSays("Done.")],
      ],
    },
    recordDir: join(dir, "codex-model"),
  });
  const home = makeClaudeHome(dir, join(dir, "shop"), claude.url);
  writeFileSync(home.userSettings, JSON.stringify({ skipDangerousModePermissionPrompt: true }));
  const world = await makeWorld({ dir, path: [HARNESS_BIN, kikiFolder(options.folder)] });
  Object.assign(world.env, home.env);
  try {
    const own = join(world.env["HOME"] ?? dir, ".codex");
    mkdirSync(own, { recursive: true });
    writeFileSync(join(own, "auth.json"), '{"OPENAI_API_KEY":"sk-gate-no-real-key"}\n');
    await world.register();
    await world.newThread(["parser", "-m", "SCRIPT:parser", ...WITHOUT_DIALOGS]);
    writeFileSync(join(at("parser"), "parser.ts"), 'export const version = "v1";\n');
    await world.repo.jj(["describe", "-m", "parser v1"], at("parser"));
    const follows = ["--follows", "parser"];
    await world.newThread(["docs", ...follows, "-m", "SCRIPT:docs", ...WITHOUT_DIALOGS]);
    await codexThread({ world, model: codex }, "tests", ...follows);
    await Promise.all([asked(claude, "docs", 1), codexAsked({ model: codex }, "tests", 1)]);
    report.check(
      "two children of one parent, one of each harness",
      (await world.state("docs")).harness === "claude-code" &&
        (await world.state("tests")).harness === "codex" &&
        sessionOf(world, "docs") !== null &&
        sessionOf(world, "tests") !== null,
    );

    await personMoves({ world, at }, "docs", "v2");
    await waitFor(
      async () => (await world.state("tests")).intents.some((i) => i.state === "Detected"),
      STEP_MS,
      "the other child's intent",
    );
    await show(report, world);
    report.check(
      "one move, an intent for each, and not one file of either has changed",
      CHILDREN.every((name) => readFileSync(join(at(name), "parser.ts"), "utf8").includes("v1")),
    );
    const seenBefore = Date.now();
    cues.give("go");
    const [ofClaude, ofCodex] = await Promise.all([
      asked(claude, "docs", 2),
      codexAsked({ model: codex }, "tests", 2),
    ]);
    const move = {
      kind: "NativeRewrite",
      seq: 1,
      brings: { "parser.ts": "v2" },
      seenBefore,
    } as const;
    report.say("Claude Code:");
    checkMove(report, world, {
      ...move,
      child: "docs",
      calls: ["toolu_blocked"],
      told: refusals(ofClaude),
      askedAt: ofClaude.at,
      expected: claudeExpects,
      workspace: at("docs"),
    });
    report.say("Codex:");
    checkMove(report, world, {
      ...move,
      child: "tests",
      calls: ["c_blocked"],
      told: outputs(ofCodex),
      askedAt: ofCodex.at,
      expected: (_id, payload) =>
        EXPECTED.expectedResult(payload, { toolName: "Bash", command: blocked("tests") }),
      workspace: at("tests"),
    });
    const [read, readToo] = await Promise.all([
      asked(claude, "docs", 3),
      codexAsked({ model: codex }, "tests", 3),
    ]);
    report.check(
      "both read v2",
      /version = \\+"v2/.test(read.raw) && outputs(readToo).get("c_read")?.includes("v2") === true,
    );
    for (const name of CHILDREN) checkAcknowledged(report, world, name, 1);
    for (const name of CHILDREN)
      await waitFor(
        async () => (await world.state(name)).summary.cascade === "in sync",
        STEP_MS,
        `${name} in sync`,
      );
    report.check(
      "both are in sync, and neither blocked call has run",
      CHILDREN.every((name) => !existsSync(join(at(name), "blocked.txt"))),
    );
  } catch (error) {
    explain(report, world);
    throw error;
  } finally {
    if (!options.keep) await world.close();
    await Promise.all([claude.close(), codex.close()]);
  }
}

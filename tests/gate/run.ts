/**
 * `npm run gate`: what kiki relies on, proved with the real harness binaries. Installs them outside, then runs itself
 * again in a network namespace where only loopback exists; everything the gate starts is started there.
 *
 *   npm run gate [-- suite…] [-- --inverted] [-- --seen] [-- --only=<part of a proof's id>] [-- --record] [-- --keep]
 *
 * --inverted runs every proof once more with its fixture turned round, in which it must be refuted; --seen prints what
 * each run showed;
 * --record writes the hook payloads of the run into fixtures/hooks; --keep leaves folder and tmux sessions to look at.
 */
import { copyFileSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build, isBuilt } from "../../scripts/build.ts";
import { endProcesses, processesMentioning } from "../../scripts/leftovers.ts";
import { ROOT } from "../../scripts/packages.ts";
import { waitFor } from "../support/wait.ts";
import { both } from "./both/suite.ts";
import { claudeLaunch } from "./claude-launch/suite.ts";
import { claudeProofs } from "./claude-proofs/suite.ts";
import { claudeQuick } from "./claude-quick/suite.ts";
import { claudeRestart } from "./claude-restart/suite.ts";
import { claudeSmoke } from "./claude-smoke/suite.ts";
import { cost } from "./cost/suite.ts";
import { codexLaunch } from "./codex-launch/suite.ts";
import { codexPayloads } from "./codex-payloads/suite.ts";
import { codexProofs } from "./codex-proofs/suite.ts";
import { codexQuick } from "./codex-quick/suite.ts";
import { codexSmoke } from "./codex-smoke/suite.ts";
import { CLAUDE_VERSION, CODEX_VERSION, HARNESS_BIN, installHarnesses } from "./install.ts";
import {
  insideNamespace,
  prepareNamespace,
  proveLoopbackOnly,
  runInNamespace,
  type LoopbackProof,
} from "./namespace.ts";
import { kikiFolder, type GateOptions } from "./options.ts";
import { makeReport, type Report } from "./report.ts";

/** A suite cannot be called without the proof that nothing but loopback can be reached. */
type Suite = (report: Report, proof: LoopbackProof, options: GateOptions) => Promise<void>;

const SUITES: Readonly<Record<string, Suite>> = {
  "claude-quick": claudeQuick,
  "claude-launch": claudeLaunch,
  "claude-proofs": claudeProofs,
  "claude-smoke": claudeSmoke,
  "claude-restart": claudeRestart,
  both,
  cost,
  "codex-launch": codexLaunch,
  "codex-payloads": codexPayloads,
  "codex-proofs": codexProofs,
  "codex-quick": codexQuick,
  "codex-smoke": codexSmoke,
};

/** Daemons and harnesses that were told to end may still be writing their last lines. */
const SETTLE_MS = 5_000;

async function outside(argv: readonly string[]): Promise<number> {
  await installHarnesses((line) => console.log(line));
  const dist = join(ROOT, "dist");
  if (!isBuilt(dist)) {
    console.log("building dist/kiki");
    await build([], dist);
  }
  const runRoot = realpathSync(mkdtempSync(join(tmpdir(), "kiki-gate-")));
  copyBinary(dist, kikiFolder(runRoot));
  const keep = argv.includes("--keep");
  try {
    return await runInNamespace([process.execPath, import.meta.path, ...argv], {
      ...cleanEnvironment(),
      PATH: `${HARNESS_BIN}:${process.env["PATH"] ?? "/usr/bin:/bin"}`,
      TMPDIR: runRoot,
      TMUX_TMPDIR: runRoot,
    });
  } finally {
    if (!keep) {
      endProcesses(processesMentioning(runRoot));
      rmSync(runRoot, { recursive: true, force: true });
    }
  }
}

/** A build during the run must not replace the daemon that is being watched. */
function copyBinary(dist: string, folder: string): void {
  mkdirSync(folder);
  copyFileSync(join(dist, "kiki"), join(folder, "kiki"));
  for (const name of ["kk", "kkd", "kk-hook"]) symlinkSync("kiki", join(folder, name));
}

/** Nothing of the person's own agents, tmux, jj, git or kiki reaches the run. */
function cleanEnvironment(): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    if (/^(TMUX|KIKI_|JJ_|GIT_|XDG_|BUN_|CLAUDE|ANTHROPIC_|CODEX_|OPENAI_)/.test(name)) continue;
    if (value !== undefined) env[name] = value;
  }
  return env;
}

async function inside(argv: readonly string[]): Promise<number> {
  const started = performance.now();
  const runRoot = process.env["TMPDIR"];
  if (runRoot === undefined)
    throw new Error("TMPDIR is not set: start the gate with `npm run gate`");
  const report = makeReport();
  const options = {
    keep: argv.includes("--keep"),
    record: argv.includes("--record"),
    inverted: argv.includes("--inverted"),
    seen: argv.includes("--seen"),
    only: argv.find((word) => word.startsWith("--only="))?.slice("--only=".length) ?? null,
    folder: runRoot,
  };
  const named = argv.filter((word) => !word.startsWith("-"));
  const unknown = named.find((name) => !Object.hasOwn(SUITES, name));
  if (unknown !== undefined)
    throw new Error(`no gate suite ${unknown}; there are: ${Object.keys(SUITES).join(", ")}`);

  report.heading("Loopback only");
  prepareNamespace(runRoot);
  const proof = await proveLoopbackOnly();
  for (const line of proof.lines) report.check(line, true);
  report.say(`  Claude Code ${CLAUDE_VERSION} and Codex ${CODEX_VERSION}, from .tools/harness`);

  for (const [name, suite] of Object.entries(SUITES)) {
    if (named.length > 0 && !named.includes(name)) continue;
    try {
      await suite(report, proof, options);
    } catch (error) {
      report.check(
        `${name} runs to its end`,
        false,
        error instanceof Error ? error.message : String(error),
      );
    }
  }
  if (options.keep) report.say(`\nKept: ${runRoot}, with the tmux servers behind its */tmux.sock`);
  else await nothingLeft(report, runRoot);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  if (report.failed > 0) console.log(`\nWhat did not hold:\n  ${report.failures.join("\n  ")}`);
  console.log(`\n${seconds} s\n${report.passed} passed, ${report.failed} failed`);
  return report.failed === 0 ? 0 : 1;
}

async function nothingLeft(report: Report, runRoot: string): Promise<void> {
  const mine = new Set([process.pid, process.ppid]);
  const left = () =>
    processesMentioning(runRoot).filter(({ pid }) => pid === undefined || !mine.has(pid));
  await waitFor(() => left().length === 0, SETTLE_MS, "all processes gone").catch(() => undefined);
  report.heading("Afterwards");
  report.check("no process of the run is left", left().length === 0, () =>
    left()
      .map(({ what }) => what)
      .join("\n"),
  );
}

try {
  const argv = process.argv.slice(2);
  process.exit(await (insideNamespace() ? inside(argv) : outside(argv)));
} catch (error) {
  console.log(`gate: ${error instanceof Error ? error.message : String(error)}`);
  console.log("0 passed, 1 failed");
  process.exit(1);
}

/**
 * One hermetic run of test files, whoever asks for it: dist/ is built first when it is out of date; a file that never
 * reported (did not load, or ended the process) counts as failed; and so does anything a test left behind. Every run
 * has its own TMPDIR, which marks what belongs to it, so several runs on one machine do not see each other's processes
 * and folders.
 */
import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { build, isBuilt } from "./build.ts";
import { tally, type Tally } from "./junit.ts";
import { endProcesses, processesMentioning, type Leftover } from "./leftovers.ts";
import { ROOT } from "./packages.ts";

export interface Suite {
  /** Relative to the root. */
  files: string[];
  /** For bun's own runner. */
  options: string[];
  /** Beside the hermetic environment. */
  env: Record<string, string>;
}

const TEST_TIMEOUT_MS = 60_000;
// Beyond this the real tools that tests start (jj, tmux, daemons) only wait for each other.
const MAX_WORKERS = 4;
// A daemon that was told to stop may still be writing its last lines.
const SETTLE_MS = 5_000;
const SETTLE_POLL_MS = 100;
// So many files are named at the end, for whoever wants the suite faster.
const SLOWEST = Number(process.env["KIKI_TEST_SLOWEST"] ?? 8);
// Of a failing test's report, and of how many of them, when they are told again at the end.
const WORDS_LINES = 60;
const WORDS_TESTS = 10;

/**
 * The environment of a test run: the caller's own tmux, jj, git and kiki settings must not reach
 * the tests, nor the tests the caller's home.
 */
function testEnvironment(runRoot: string, more: Record<string, string>): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    // KIKI_TEST_… is how a person talks to the tests themselves.
    if (/^(TMUX|KIKI_(?!TEST_)|JJ_|GIT_|XDG_|BUN_OPTIONS|BUN_TMPDIR)/.test(name)) continue;
    if (value !== undefined) env[name] = value;
  }
  const home = join(runRoot, "home");
  mkdirSync(home);
  return { ...env, HOME: home, TMPDIR: runRoot, TMUX_TMPDIR: runRoot, NODE_ENV: "test", ...more };
}

/** Names in the run's folder that a test made and did not remove. */
function foldersLeft(runRoot: string): string[] {
  return readdirSync(runRoot).filter(
    // bun unpacks embedded native modules here and leaves them for the next start.
    (name) => name !== "home" && name !== "junit.xml" && !/^\.bun-.*\.node$/.test(name),
  );
}

/** Waits for the run to come to rest; whatever is still there then was left behind. */
async function leftBehind(runRoot: string): Promise<Leftover[]> {
  const deadline = performance.now() + SETTLE_MS;
  for (;;) {
    const processes = processesMentioning(runRoot);
    const folders = foldersLeft(runRoot);
    if (processes.length + folders.length === 0 || performance.now() > deadline) {
      return [...processes, ...folders.map((name) => ({ what: `folder ${name}` }))];
    }
    await Bun.sleep(SETTLE_POLL_MS);
  }
}

async function runTests(runRoot: string, suite: Suite): Promise<Tally> {
  const { files, options, env } = suite;
  const report = join(runRoot, "junit.xml");
  // Tests wait for programs much of their time, so one more than there are cores. At least two, because only workers
  // survive a test that ends its process.
  const workers = Math.max(2, Math.min(MAX_WORKERS, availableParallelism() + 1));
  const child = Bun.spawn(
    [
      process.execPath,
      "test",
      `--parallel=${workers}`,
      `--max-concurrency=${workers}`,
      `--timeout=${TEST_TIMEOUT_MS}`,
      "--reporter=junit",
      `--reporter-outfile=${report}`,
      ...options,
      ...files.map((file) => `./${file}`),
    ],
    { cwd: ROOT, env: testEnvironment(runRoot, env), stdio: ["ignore", "inherit", "pipe"] },
  );
  const said = passOn(child.stderr);
  // Interrupted, the run still cleans up after itself.
  const stop = (): void => child.kill();
  process.on("SIGINT", stop);
  process.on("SIGTERM", stop);
  const exitCode = await child.exited;
  const words = wordsOfFailures(await said);
  if (words !== "") console.log(`\nwhat the failing ones said:\n${words}`);

  const xml = await Bun.file(report)
    .text()
    .catch(() => "");
  const narrowed = options.some((option) => /^(-t|--test-name-pattern|--bail|--only)/.test(option));
  const result = tally(xml, narrowed ? [] : files);
  if (exitCode !== 0 && result.failures.length === 0) {
    result.failures.push(`bun test: ended with code ${exitCode} and reported no failure`);
  }
  return result;
}

/** Everything the runner reports, handed on as it comes. */
async function passOn(report: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let said = "";
  for await (const chunk of report) {
    process.stderr.write(chunk);
    said += decoder.decode(chunk, { stream: true });
  }
  return said;
}

/**
 * The report of each failing test once more, for the end of a log whose middle nobody sees. bun 1.4.5 prints a test's error
 * before its `(fail)` line.
 */
export function wordsOfFailures(report: string): string {
  const blocks: string[] = [];
  let block: string[] = [];
  for (const line of report.split("\n")) {
    if (/^\((pass|skip|todo)\) |^tests\/\S+\.test\.ts:$/.test(line)) block = [];
    else block.push(line);
    if (!line.startsWith("(fail) ")) continue;
    const cut = block.length > WORDS_LINES ? ["…", ...block.slice(-WORDS_LINES)] : block;
    blocks.push(cut.join("\n").trim());
    block = [];
  }
  return blocks.slice(0, WORDS_TESTS).join("\n\n");
}

/** Prints bun's report and what failed; the verdict is the caller's. */
export async function runSuite(suite: Suite): Promise<Tally> {
  const dist = join(ROOT, "dist");
  if (!isBuilt(dist)) {
    console.error("building dist/kiki");
    await build([], dist);
  }
  const runRoot = realpathSync(mkdtempSync(join(tmpdir(), "kiki-test-")));
  try {
    const result = await runTests(runRoot, suite);
    const left = await leftBehind(runRoot);
    endProcesses(left);
    for (const { what } of left) result.failures.push(`left behind: ${what}`);
    if (result.slowest.length > SLOWEST) {
      const named = result.slowest.slice(0, SLOWEST);
      const all = named.map(({ file, seconds }) => `${file} ${seconds.toFixed(0)} s`);
      console.log(`\nslowest files: ${all.join(", ")}`);
    }
    if (result.failures.length > 0) console.log("\nfailed:");
    for (const failure of result.failures) console.log(`  ${failure}`);
    return result;
  } finally {
    rmSync(runRoot, { recursive: true, force: true });
  }
}

/** Runs a script's `main`; one that throws has failed, and says so. */
export async function exitWith(main: () => Promise<number>): Promise<never> {
  let code = 1;
  try {
    code = await main();
  } catch (error) {
    console.log(`test run: ${error instanceof Error ? error.message : String(error)}`);
    console.log("0 passed, 1 failed");
  }
  process.exit(code);
}

/** The question itself, on a real terminal: what counts as an answer to it, and where there is nobody to ask. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { runInPane, tmuxOn, type PaneRun } from "../support/tmux.ts";
import { waitFor } from "../support/wait.ts";

const TERMINAL = join(import.meta.dir, "../../src/cmd/terminal.ts");
setDefaultTimeout(30_000);
let dir: string;
let socket: string;
let script: string;

beforeAll(() => {
  dir = tempDir("ask");
  socket = join(dir, "tmux.sock");
  script = join(dir, "ask.ts");
  writeFileSync(
    script,
    `import { existsSync } from "node:fs";
import { endInterrupted, openTerminal } from ${JSON.stringify(TERMINAL)};
const terminal = openTerminal();
if (terminal === null) { console.log("nobody"); process.exit(4); }
console.log("ready " + terminal.columns);
while (process.argv[2] !== undefined && !existsSync(process.argv[2])) await Bun.sleep(5);
const answer = await terminal.ask("Go? ");
console.log(JSON.stringify(answer));
terminal.close();
if (answer.kind === "interrupted") await endInterrupted();
`,
  );
});
afterAll(async () => {
  await tmuxOn(socket).kill();
  removeTempDirs();
});

function ask(command: readonly string[] = [process.execPath, script], columns = 80): PaneRun {
  const env = { PATH: process.env["PATH"] ?? "", HOME: dir };
  return runInPane({ socket, env, cwd: dir, command, columns });
}

test("line typed after the question → the answer", async () => {
  const pane = ask();
  await pane.waitForText(/Go\?/);
  pane.type("yes");
  pane.enter();
  await pane.waitForText(/\{"kind":"line","text":"yes"\}/);
  expect(await pane.exitCode()).toBe(0);
});

test("y typed before the question is there → thrown away; the question still waits", async () => {
  const go = join(dir, "go");
  const pane = ask([process.execPath, script, go]);
  await pane.waitForText(/ready/);
  pane.type("y");
  pane.enter();
  await pane.waitForText(/^y$/m);
  writeFileSync(go, "");
  await pane.waitForText(/Go\?/);
  pane.type("n");
  pane.enter();
  await pane.waitForText(/"text":"n"/);
  expect(await pane.exitCode()).toBe(0);
});

test("line longer than any answer → no answer, and none of it is left for the shell that comes next", async () => {
  const rest = join(dir, "rest.txt");
  const line = `'${process.execPath}' '${script}'; head -n 1 > '${rest}'`;
  const pane = ask(["sh", "-c", line]);
  await pane.waitForText(/Go\?/);
  pane.type("y".repeat(3000));
  pane.enter();
  await pane.waitForText(/"kind":"end"/);
  pane.type("next");
  pane.enter();
  expect(await pane.exitCode()).toBe(0);
  expect(await Bun.file(rest).text()).toBe("next\n");
});

test("Ctrl-D → end, Ctrl-C → interrupted and exit 130", async () => {
  const ended = ask();
  await ended.waitForText(/Go\?/);
  ended.send("C-d");
  await ended.waitForText(/"kind":"end"/);
  const interrupted = ask();
  await interrupted.waitForText(/Go\?/);
  interrupted.send("C-c");
  await interrupted.waitForText(/"kind":"interrupted"/);
  expect([await ended.exitCode(), await interrupted.exitCode()]).toEqual([0, 130]);
});

test("output and input redirected, terminal 40 columns wide → the terminal's own width, and it is asked", async () => {
  const out = join(dir, "out.txt");
  const line = `'${process.execPath}' '${script}' > '${out}' < /dev/null`;
  const pane = ask(["sh", "-c", line], 40);
  await pane.waitForText(/Go\?/);
  pane.enter();
  expect(await pane.exitCode()).toBe(0);
  expect(await Bun.file(out).text()).toBe('ready 40\n{"kind":"line","text":""}\n');
});

test("background job of an interactive shell, or no terminal at all → nobody to ask", async () => {
  const done = join(dir, "done");
  const job = `'${process.execPath}' '${script}' & wait; touch '${done}'`;
  const pane = ask(["sh", "-ic", job]);
  await waitFor(
    () => existsSync(done),
    10_000,
    () => `the job's end:\n${pane.history()}`,
  );
  expect(pane.history()).toContain("nobody");
  const without = Bun.spawnSync(["setsid", process.execPath, script], { stdin: "ignore" });
  expect([without.exitCode, without.stdout.toString()]).toEqual([4, "nobody\n"]);
});

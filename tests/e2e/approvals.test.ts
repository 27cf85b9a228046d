/** A person says yes or no: the whole binary on real terminals, and what is left of it on disk. */
import { existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { displayWidth } from "../../src/core/render/width.ts";
import { audited, challenges, inDb, refusedSince, repoDb } from "../support/audit-log.ts";
import { makeRepo, runAs } from "../support/jj-repo.ts";
import { onTerminal } from "../support/person.ts";
import { isThorough } from "../support/thorough.ts";
import { runInPane, type PaneRun } from "../support/tmux.ts";
import { waitFor } from "../support/wait.ts";
import { initialised, makeWorld, type ThreadState, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
const worlds: World[] = [];
let w: World;

async function keep(made: Promise<World>): Promise<World> {
  const world = await made;
  worlds.push(world);
  return world;
}

beforeAll(async () => {
  w = await keep(initialised());
});
afterAll(async () => {
  for (const world of worlds) await world.close();
});

/** `kk` in a pane outside tmux's own environment: a person's plain terminal. */
function terminal(args: readonly string[], columns = 100): PaneRun {
  const command = ["kk", ...args];
  const { env, repo } = w;
  return runInPane({
    socket: w.tmux.socket,
    env,
    cwd: repo.root,
    command,
    columns,
    outside: true,
  });
}

const names = async (): Promise<string[]> => (await w.threads()).map((t) => t.name);

describe("a person on a terminal", () => {
  test("yes → Active, and everything about it recorded once", async () => {
    const pane = terminal(["new", "agreed", "--detach"]);
    const shown = await pane.waitForText(/Go ahead\? \[y\/N\]/);
    expect(shown).toMatch(/^Asked for: a new thread "agreed"$/m);
    expect(shown).toMatch(/^Digest [0-9a-f]{12}, expires in 2 minutes\.$/m);
    pane.type("y");
    pane.enter();
    expect(await pane.exitCode(60_000)).toBe(0);
    expect((await w.threads()).find((t) => t.name === "agreed")?.lifecycle).toBe("Active");
    expect(challenges(w).at(-1)).toBe("Confirmed");
    const [operation, ...more] = inDb(repoDb(w), (db) =>
      db.query<{ state: string }, []>("SELECT state FROM approved_operations").all(),
    );
    expect([operation?.state, more]).toEqual(["Completed", []]);
  });

  const answers = [
    ["n", (pane: PaneRun) => (pane.type("n"), pane.enter()), 4],
    ["Enter alone", (pane: PaneRun) => pane.enter(), 4],
    ["Ctrl-D", (pane: PaneRun) => pane.send("C-d"), 4],
    ["Ctrl-C", (pane: PaneRun) => pane.send("C-c"), 130],
  ] as const;
  const played = answers.filter(([key]) => isThorough || key === "n" || key === "Ctrl-C");
  test.each(played)("%s → nothing made, challenge Cancelled", async (_, answer, code) => {
    const folders = readdirSync(w.dir).filter((name) => name.startsWith("shop"));
    const pane = terminal(["new", "declined"]);
    await pane.waitForText(/\[y\/N\]/);
    answer(pane);
    expect(await pane.exitCode()).toBe(code);
    expect(await names()).not.toContain("declined");
    expect(readdirSync(w.dir).filter((name) => name.startsWith("shop"))).toEqual(folders);
    expect(challenges(w).at(-1)).toBe("Cancelled");
  });

  test("40 columns → plan and kk's lines are laid out for them; only what has no blank in it runs over", async () => {
    const prompt = "Write a parser for sums, and then one for products.";
    const argv = ["kk", "new", "narrow", "--no-follow", "-m", prompt];
    const { code, screen } = await onTerminal(w.env, argv, "n", w.repo.root, 40);
    expect(code).toBe(4);
    const own = screen.split("\n").filter((line) => !line.startsWith("kk: "));
    const over = own.filter((line) => displayWidth(line) > 40 && line.trim().includes(" "));
    expect(over).toEqual([]);
    expect(own.some((line) => displayWidth(line) > 40)).toBe(true); // the path of the workspace, whole
    expect(own.join(" ").replace(/ +/g, " ")).toContain(prompt);
    expect(screen).toMatch(/^Asked for: a new thread "narrow"$/m);
  });

  test("daemon killed while the plan is read → the same yes still counts", async () => {
    const pane = terminal(["new", "outlived", "--detach"]);
    await pane.waitForText(/\[y\/N\]/);
    const pid = w.daemonPid();
    process.kill(pid, "SIGKILL");
    await w.gone(pid);
    pane.type("y");
    pane.enter();
    expect(await pane.exitCode(60_000)).toBe(0);
    expect((await w.threads()).find((t) => t.name === "outlived")?.lifecycle).toBe("Active");
    expect(pane.history()).not.toContain("this is the plan now");
  });

  test("background job of an interactive shell → plan, one line, exit 4, nothing made", async () => {
    const before = audited(w);
    const done = join(w.dir, "job");
    const pane = runInPane({
      socket: w.tmux.socket,
      env: w.env,
      cwd: w.repo.root,
      command: ["sh", "-ic", `kk new job & wait $!; echo $? > '${done}'`],
      outside: true,
    });
    await waitFor(() => existsSync(done) && readFileSync(done, "utf8") !== "", 20_000, "the job");
    expect(readFileSync(done, "utf8").trim()).toBe("4");
    expect(pane.history()).toContain('New thread "job"');
    expect(pane.history()).toMatch(/^kk: .*foreground/m);
    expect(await names()).not.toContain("job");
    expect(refusedSince(w, before)).toEqual(["repo BeginApproval not-foreground"]);
  });

  test("no terminal, y piped in → plan, one line, exit 4, one refused request", async () => {
    const before = audited(w);
    const child = Bun.spawn(["setsid", "-w", "sh", "-c", "echo y | kk new piped"], {
      cwd: w.repo.root,
      env: w.env,
      stdout: "pipe",
      stderr: "pipe",
    });
    const [out, err] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ]);
    expect(await child.exited).toBe(4);
    expect(out).toStartWith('New thread "piped"');
    expect(err).toMatch(/^kk: .*terminal.*\n$/);
    expect(refusedSince(w, before)).toEqual(["repo BeginApproval approval-no-terminal"]);
  });

  test("challenge of one terminal → another terminal's presenter cannot confirm it", async () => {
    // The first asks and goes on waiting; the second has all that is secret about it, and is somewhere else.
    const other = await makeRepo({ dir: w.dir, name: "other" });
    const found = join(w.dir, "challenge.json");
    const begin = join(w.dir, "begin.ts");
    const src = join(import.meta.dir, "../../src");
    writeFileSync(
      begin,
      `import { readFileSync, writeFileSync } from "node:fs";
import { makeClient } from ${JSON.stringify(`${src}/rpc/client.ts`)};
const dir = ${JSON.stringify(w.stateDir)};
const secret = (name) => readFileSync(dir + "/" + name, "utf8").trim();
const client = (name) => makeClient({ socket: dir + "/kkd.sock", credential: secret(name), clientVersion: "test" });
const [, , role, file] = process.argv;
if (role === "begin") {
  const args = { folder: ${JSON.stringify(other.root)} };
  const plan = await client("registration-cred").call("BeginApproval", { method: "RegisterRepo", args, clientPid: process.pid });
  writeFileSync(file, JSON.stringify(plan.challenge));
  console.log("begun");
  await Bun.sleep(60_000);
} else {
  const { challengeId, repoId, nonce } = JSON.parse(readFileSync(file, "utf8"));
  const answer = { challengeId, repoId, nonce, clientPid: process.pid };
  await client("presenter-cred").call("ConfirmApproval", answer).then(
    () => console.log("CONFIRMED"),
    (error) => console.log("refused " + error.code + "."),
  );
}
`,
    );
    const onTerminal = (role: string): PaneRun =>
      runInPane({
        socket: w.tmux.socket,
        env: w.env,
        cwd: w.repo.root,
        command: [process.execPath, begin, role, found],
        outside: true,
      });
    const first = onTerminal("begin");
    await first.waitForText(/begun/);
    const second = onTerminal("confirm");
    await second.waitForText(/refused other-terminal\./);
    first.send("C-c");
    expect((await w.kkJson<{ repos: unknown[] }>(["repo", "ls"])).repos).toHaveLength(1);
  });
});

describe("inside a thread", () => {
  /** As a person's shell that has a thread's variables, but nothing of its incarnation. */
  const inside = async (thread: string): Promise<Record<string, string>> => {
    const { repoId, threadId } = (await w.state(thread)).summary;
    return { ...w.env, KIKI_REPO_ID: repoId, KIKI_THREAD_ID: threadId };
  };
  const on = (env: Record<string, string>, line: string, answer = "y") =>
    onTerminal(env, ["sh", "-c", line], answer, w.repo.root, 200);

  test("kk status of another one → asked for each of the two things it reads; no → neither shown", async () => {
    await w.newThread(["me"]);
    await w.newThread(["other"]);
    const env = await inside("me");
    const own = await runAs(env, ["kk", "status"], w.repo.root);
    expect([own.code, own.stdout]).toEqual([0, expect.stringMatching(/^thread +me$/m)]);
    const shown = await on(env, "kk status other");
    expect(shown.code).toBe(0);
    expect(shown.screen.match(/^Asked for: .*$/gm)).toEqual([
      'Asked for: the state of thread "other"',
      'Asked for: the jj status of thread "other"',
    ]);
    expect(shown.screen).toMatch(/^thread +other$/m);
    expect(shown.screen).toContain("The working copy has no changes.");
    const declined = await on(env, "kk status other", "n");
    expect(declined.code).toBe(4);
    expect(declined.screen).not.toMatch(/^thread +other$/m);
  });

  test("kk new --json → follows this thread; progress and state are read as the new one", async () => {
    const env = await inside("me");
    const out = join(w.dir, "child.json");
    const made = await on(env, `kk new child --json > '${out}'`);
    expect([made.code, made.screen]).toEqual([0, expect.stringContaining("✓ ready")]);
    const state = JSON.parse(readFileSync(out, "utf8")) as ThreadState;
    expect(state.summary).toMatchObject({ name: "child", lifecycle: "Active", followsName: "me" });
  });
});

describe("presenter", () => {
  test("first kk init → enrolled once, said in one line, file 0600; the second repository needs no more", async () => {
    const fresh = await keep(makeWorld());
    const file = join(fresh.stateDir, "presenter-cred");
    const first = await fresh.kkOnTerminal(["init"], "y");
    expect([first.code, first.screen.split(file).length]).toEqual([0, 2]);
    expect(first.screen).toContain(`registered ${fresh.repo.root}`);
    const other = await makeRepo({ dir: fresh.dir, name: "other" });
    const second = await fresh.kkOnTerminal(["init"], "y", other.root);
    expect([second.code, second.screen.includes(file)]).toEqual([0, false]);
  });

  test("kk init without a terminal → plan, exit 4, nothing registered, nothing enrolled", async () => {
    const fresh = await keep(makeWorld());
    const result = await fresh.kk(["init"]);
    expect([result.code, result.stdout]).toEqual([4, expect.stringContaining(fresh.repo.root)]);
    expect(result.stderr.trim().split("\n")).toHaveLength(1);
    expect((await fresh.kkJson<{ repos: unknown[] }>(["repo", "ls"])).repos).toEqual([]);
    expect(existsSync(join(fresh.stateDir, "presenter-cred"))).toBe(false);
  });

  test("credential lost → names kk presenter recover; that asks, and then everything works again", async () => {
    const fresh = await keep(initialised());
    const file = join(fresh.stateDir, "presenter-cred");
    const old = readFileSync(file, "utf8");
    rmSync(file);
    const lost = await fresh.kkOnTerminal(["new", "x", "--detach"], "y");
    expect(lost.code).toBe(4);
    expect(lost.screen).toMatch(/^kk: .* — kk presenter recover$/m);
    const declined = await fresh.kkOnTerminal(["presenter", "recover"], "n");
    expect([declined.code, existsSync(file)]).toEqual([4, false]);
    const recovered = await fresh.kkOnTerminal(["presenter", "recover"], "y");
    expect(recovered.code).toBe(0);
    expect(readFileSync(file, "utf8")).not.toBe(old);
    expect((await fresh.newThread(["x"])).lifecycle).toBe("Active");
    // The one that was lost is worth nothing any more.
    writeFileSync(file, old);
    const stale = await fresh.kkOnTerminal(["new", "y", "--detach"], "y");
    expect([stale.code, stale.screen]).toEqual([
      4,
      expect.stringContaining("kk presenter recover"),
    ]);
  });

  test("kk presenter recover without a terminal → one line, exit 4", async () => {
    const result = await w.kk(["presenter", "recover"]);
    expect([result.code, result.stdout]).toEqual([4, ""]);
    expect(result.stderr).toMatch(/^kk: .*terminal.*\n$/);
  });
});

describe("kk repo unregister", () => {
  test("no → still there; yes → gone from the list, the repository as it was; init takes kept state up again", async () => {
    const fresh = await keep(initialised());
    const [before] = (await fresh.kkJson<{ repos: { repoId: string }[] }>(["repo", "ls"])).repos;
    const path = fresh.repo.root;
    expect((await fresh.kkOnTerminal(["repo", "unregister", path], "n")).code).toBe(4);
    const done = await fresh.kkOnTerminal(["repo", "unregister", path, "--keep-state"], "y", "/");
    expect([done.code, done.screen]).toEqual([0, expect.stringContaining(`unregistered ${path}`)]);
    expect((await fresh.kkJson<{ repos: unknown[] }>(["repo", "ls"])).repos).toEqual([]);
    await fresh.register();
    const { repos } = await fresh.kkJson<{ repos: { repoId: string }[] }>(["repo", "ls"]);
    expect(repos.map((repo) => repo.repoId)).toEqual([before!.repoId]);
  });
});

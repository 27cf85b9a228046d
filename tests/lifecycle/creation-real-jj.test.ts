/** Making and unmaking threads on real jj and real files; tmux, panes and the agent are stand-ins. */
import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createJj } from "../../src/backends/jj/backend.ts";
import { realClock } from "../../src/backends/clock.ts";
import { realIds } from "../../src/backends/ids.ts";
import { createRecipes } from "../../src/backends/recipes.ts";
import * as durable from "../../src/backends/files.ts";
import * as folders from "../../src/backends/folders.ts";
import { repoPaths } from "../../src/core/paths.ts";
import { SerialQueues } from "../../src/core/serial-queue.ts";
import type { CreationFiles } from "../../src/lifecycle/creation-deps.ts";
import { makeCreation, type Creation } from "../../src/lifecycle/creation.ts";
import { NO_CRASH } from "../../src/ports/crash.ts";
import type { JjRepo } from "../../src/ports/jj.ts";
import { openAttention } from "../../src/store/attention.ts";
import { edges } from "../../src/store/edges.ts";
import type { Db } from "../../src/store/db.ts";
import { latestOperation, stepsOf } from "../../src/store/lifecycle-ops.ts";
import { openRepoDb } from "../../src/store/open.ts";
import { liveSession } from "../../src/store/sessions.ts";
import { threadById, type ThreadRow } from "../../src/store/threads.ts";
import { FakeHarness } from "../fakes/harness.ts";
import { FakeProcesses } from "../fakes/processes.ts";
import { FakeTmux } from "../fakes/tmux.ts";
import { makeRepo, type TestRepo } from "../support/jj-repo.ts";
import { removeTempDirs } from "../support/temp.ts";
import { isThorough, thorough } from "../support/thorough.ts";
import { waitFor } from "../support/wait.ts";
import { AGREED, inputFor, REPO_ID } from "./rig.ts";

const TIMEOUT_MS = 60_000;
afterAll(removeTempDirs);

const files: CreationFiles = {
  ensureDir: async (path, mode) => durable.ensureDir(path, mode),
  writeDurable: async (path, bytes, mode) => durable.writeDurable(path, bytes, mode),
  removeDurable: async (path) => durable.removeDurable(path),
  readText: async (path) => durable.readText(path),
  sha256: folders.fileSha256,
  kind: folders.folderKind,
  inode: folders.inodeOf,
  listFiles: folders.listFiles,
  removeListed: folders.removeListed,
  removeTree: folders.removeTree,
};

interface Bench {
  repo: TestRepo;
  db: Db;
  creation: Creation;
  tmux: FakeTmux;
  /** Creates up to the wait for the agent; `end` lets it become ready or end with 1. */
  start(
    name: string,
    follows?: string,
  ): Promise<{ threadId: string; end(ready: boolean): Promise<ThreadRow> }>;
  /** What a person sees of the repository: log, workspaces, bookmarks. */
  seen(): Promise<string>;
}

async function bench(
  colocated: boolean,
  over: (jj: JjRepo) => Partial<JjRepo> = () => ({}),
  /** Called when it is the turn of several mutations, before the first. */
  turn: () => Promise<void> = () => Promise.resolve(),
): Promise<Bench> {
  const repo = await makeRepo({ colocated });
  const stateDir = join(repo.dir, "state");
  const paths = repoPaths(stateDir, REPO_ID);
  mkdirSync(paths.root, { recursive: true });
  const jjBackend = createJj({ env: repo.env });
  const plain = jjBackend.open((await jjBackend.locate(repo.root))!, paths.neutral);
  const jj = { ...plain, ...over(plain) };
  await jj.ensureNeutral(realIds.uuid());
  const db = openRepoDb(paths.db);
  const processes = new FakeProcesses();
  const tmux = new FakeTmux(processes);
  const harness = new FakeHarness(files);
  const creation = makeCreation({
    repoId: REPO_ID,
    stateDir,
    db,
    jj,
    exclusive: async (body) => {
      await turn();
      return body(jj);
    },
    jjBackend,
    tmux: () => tmux,
    harness: () => harness,
    processes,
    files,
    recipes: createRecipes(processes),
    clock: realClock,
    ids: realIds,
    crash: NO_CRASH,
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
    queues: new SerialQueues(),
    kkPath: "/opt/kiki/kk",
    hookPath: "/opt/kiki/kk-hook",
    socketPath: "/state/kkd.sock",
    async refreshToFrontier() {
      if ((await jj.heads()).length > 1) await jj.mergeHeads(realIds.uuid());
      return (await jj.heads())[0]!;
    },
    classifyEdge: () => Promise.resolve(),
    repairHolds: () => Promise.resolve(false),
    onActive: () => undefined,
  });
  const start: Bench["start"] = async (name, follows) => {
    const input = inputFor(name, { folder: repo.root, follows: follows ?? null });
    const { digest } = await creation.plan(input);
    const { threadId } = await creation.create({ ...input, digest }, AGREED);
    const gate = await waitFor(
      () =>
        liveSession(db, threadId) ?? (latestOperation(db, threadId)!.state === "Failed" && null),
      30_000,
      () => `gate open; ${latestOperation(db, threadId)?.error}`,
    );
    const pane = tmux.panes.find((p) => p.command.includes(threadId))!;
    const launch = (await creation.awaitGate(threadId, pane.id, 1_000))!;
    creation.harnessStarted(launch.incarnation, pane.pid, processes.identify(pane.pid)!.startTime);
    const end = async (ready: boolean): Promise<ThreadRow> => {
      if (ready) await creation.sessionStarted(gate.incarnation, "s");
      else creation.harnessExited(gate.incarnation, 1, null);
      await waitFor(() => latestOperation(db, threadId)!.state !== "Running", 30_000, "ended");
      return threadById(db, threadId)!;
    };
    return { threadId, end };
  };
  const seen = async (): Promise<string> =>
    [
      await repo.jj([
        "log",
        "-r",
        "all()",
        "-T",
        'change_id ++ " " ++ bookmarks ++ " " ++ description ++ "\n"',
      ]),
      await repo.jj(["workspace", "list"]),
      await repo.jj(["bookmark", "list", "-a"]),
      colocated ? await repo.git(["worktree", "list"]) : "",
    ].join("\n");
  return { repo, db, creation, tmux, start, seen };
}

for (const colocated of isThorough ? [false, true] : [true]) {
  describe(`creation on real jj, colocated ${colocated}`, () => {
    test(
      "creation: done → bookmark and head on the described change on exactly the base, main untouched",
      async () => {
        const b = await bench(colocated);
        b.repo.write("dirty.txt", "not yet recorded");
        const parent = await (await b.start("parser")).end(true);
        expect(parent.lifecycle).toBe("Active");
        expect(parent.base).toBe(await b.repo.commit("@-"));
        expect(await b.repo.commit("bookmarks(exact:'kk/parser')")).toBe(parent.head!);
        expect(parent.checkpoint).toBe(parent.head);
        expect(
          (await b.repo.jj(["log", "--no-graph", "-r", parent.head!, "-T", "description"])).trim(),
        ).toBe("parser");
        expect(readFileSync(join(parent.workspacePath, "base.txt"), "utf8")).toContain("line 1");
        expect(existsSync(join(parent.workspacePath, ".git"))).toBe(colocated);

        const child = await (await b.start("tests", "parser")).end(true);
        expect(child.base).toBe(parent.head);
        expect(await b.repo.commit(`${child.head}-`)).toBe(parent.head!);
        await b.creation.stop();
        b.db.close();
      },
      TIMEOUT_MS,
    );

    test(
      "creation: fails at the last step → jj looks as it did before, folder gone",
      async () => {
        const b = await bench(colocated);
        if (colocated) {
          // A worktree of the person's whose folder is away for now: nobody else's business.
          await b.repo.git(["worktree", "add", "--quiet", "--detach", "../away"]);
          rmSync(join(b.repo.dir, "away"), { recursive: true });
        }
        const before = await b.seen();
        const made = await b.start("parser");
        const thread = await made.end(false);
        expect(thread.lifecycle).toBe("CreateFailed");
        expect(latestOperation(b.db, thread.threadId)!.error).not.toContain("could not be undone");
        expect(existsSync(thread.workspacePath)).toBe(false);
        expect(await b.seen()).toBe(before);
        // The same name, and the same folder, can be used again.
        const again = await (await b.start("other")).end(true);
        expect(again.lifecycle).toBe("Active");
        await b.creation.stop();
        b.db.close();
      },
      TIMEOUT_MS,
    );

    test(
      "creation: fails after files were written, tracked and ignored → every byte stays",
      async () => {
        const b = await bench(colocated);
        const made = await b.start("parser");
        const { threadId } = made;
        const { workspacePath } = threadById(b.db, threadId)!;
        b.repo.write("mine.txt", "mine", workspacePath);
        b.repo.write("build/out.log", "ignored", workspacePath);
        await made.end(false);
        expect(readFileSync(join(workspacePath, "mine.txt"), "utf8")).toBe("mine");
        expect(readFileSync(join(workspacePath, "build/out.log"), "utf8")).toBe("ignored");
        expect(
          openAttention(b.db, threadId)
            .map((a) => a.message)
            .join("\n"),
        ).toContain("mine.txt");
        expect(await b.repo.jj(["workspace", "list"])).not.toContain("kk-parser");
        await b.creation.stop();
        b.db.close();
      },
      TIMEOUT_MS,
    );
  });
}

describe("creation on real jj: the parent moves while its child is made", () => {
  const MOVES: Record<string, (repo: TestRepo, path: string) => Promise<unknown>> = {
    "adds a revision": (repo, path) => repo.jj(["new", "-m", "next"], path),
    "amends its revision": (repo, path) => {
      repo.write("parser.txt", "amended\n", path);
      return repo.jj(["status"], path);
    },
  };
  for (const [what, move] of Object.entries(MOVES)) {
    for (const when of ["before", "after"] as const) {
      // The default suite has each of the moves and each of the moments once.
      const play = what.startsWith("adds") === (when === "before") ? test : thorough;
      play(
        `parent ${what} right ${when} jj makes the workspace → base, anchor and the change below are its exact @ in the one operation that is recorded`,
        async () => {
          let armed: (() => Promise<unknown>) | null = null;
          const now = async (): Promise<void> => {
            const act = armed;
            armed = null;
            await act?.();
          };
          const b = await bench(false, (jj) => ({
            async addWorkspace(input) {
              if (when === "before") await now();
              await jj.addWorkspace(input);
              if (when === "after") await now();
            },
          }));
          const parent = await (await b.start("parser")).end(true);
          armed = () => move(b.repo, parent.workspacePath);
          const child = await (await b.start("tests", "parser")).end(true);
          expect(armed).toBeNull();
          expect(child.lifecycle).toBe("Active");
          const steps = stepsOf(b.db, latestOperation(b.db, child.threadId)!.operationId);
          const { op } = steps.find((step) => step.name === "allocate")!.result as { op: string };
          const at = async (view: string, revset: string): Promise<string> => {
            const read = ["--ignore-working-copy", "--at-op", view, "log", "--no-graph"];
            return b.repo.jj([...read, "-r", revset, "-T", "commit_id"]);
          };
          expect(child.base).toBe(await at(op, "kk-parser@"));
          expect(edges(b.db)).toEqual([
            { child: child.threadId, parent: parent.threadId, lastSynchronized: child.base! },
          ]);
          const made = steps.find((step) => step.name === "workspace")!.result as { op: string };
          expect(await at(made.op, "kk-tests@-")).toBe(child.base!);
          // What was amended has taken the child along; a new revision above has not. Nothing is there twice.
          const amended = what.startsWith("amends");
          expect(await b.repo.commit(amended ? "kk-parser@" : "kk-parser@-")).toBe(
            await b.repo.commit("kk-tests@-"),
          );
          expect(await b.repo.commit("divergent()")).toBe("");
          expect(await b.repo.commit("bookmarks(exact:'kk/tests')")).toBe(
            await b.repo.commit("kk-tests@"),
          );
          expect(child.head).toBe(await b.repo.commit("kk-tests@"));
          await b.creation.stop();
          b.db.close();
        },
        TIMEOUT_MS,
      );
    }
  }
});

describe("creation on real jj: others land while the workspace waits for its turn", () => {
  test(
    "another bookmark → the workspace is made above it: one head, and nothing to merge",
    async () => {
      let armed: (() => Promise<unknown>) | null = null;
      const b = await bench(false, undefined, async () => {
        const act = armed;
        armed = null;
        await act?.();
      });
      armed = () => b.repo.jj(["bookmark", "create", "other", "-r", "@-"]);
      const made = await (await b.start("parser")).end(true);
      expect(armed).toBeNull();
      expect(made.lifecycle).toBe("Active");
      const ops = await b.repo.jj(["op", "log", "--no-graph", "-T", 'parents.len() ++ "\n"']);
      expect(ops.split("\n").filter((parents) => Number(parents) > 1)).toEqual([]);
      await b.creation.stop();
      b.db.close();
    },
    TIMEOUT_MS,
  );

  test(
    "a rewrite of what it starts from → made on the parent's @ of that moment, nothing divergent",
    async () => {
      let armed: (() => Promise<unknown>) | null = null;
      const b = await bench(false, undefined, async () => {
        const act = armed;
        armed = null;
        await act?.();
      });
      const parent = await (await b.start("parser")).end(true);
      armed = () => b.repo.jj(["describe", "-m", "parser, again"], parent.workspacePath);
      const child = await (await b.start("tests", "parser")).end(true);
      expect(armed).toBeNull();
      expect(child.base).toBe(await b.repo.commit("kk-parser@"));
      expect(await b.repo.commit("kk-tests@-")).toBe(child.base!);
      expect(await b.repo.commit("divergent()")).toBe("");
      const ops = await b.repo.jj(["op", "log", "--no-graph", "-T", 'parents.len() ++ "\n"']);
      expect(ops.split("\n").filter((parents) => Number(parents) > 1)).toEqual([]);
      await b.creation.stop();
      b.db.close();
    },
    TIMEOUT_MS,
  );
});

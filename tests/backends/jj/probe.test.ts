/**
 * The probe against jj itself. Every situation is made in a copy of a prepared repository. The probe, which must not
 * change a byte, answers first; then jj looks at (and, where stale, updates) the same files: if `@` is still the
 * commit that was recorded for them, they were clean.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { utimesSync } from "node:fs";
import { join } from "node:path";
import { createJj } from "../../../src/backends/jj/backend.ts";
import type { WorkspaceProbe } from "../../../src/ports/jj.ts";
import { makeRepo, personIn, runAs, type TestRepo } from "../../support/jj-repo.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";
import { copyTree, treeChanges, treeOf } from "../../support/tree.ts";

const TIMEOUT_MS = 60_000;

/** The person's hands, with `sh` in the child workspace. */
interface Scene extends TestRepo {
  child: string;
  sh(script: string): Promise<void>;
}

interface Case {
  name: string;
  /** Done in the child workspace before the probe. */
  act?: string | ((scene: Scene) => Promise<void>);
  /** Ask jj as well whether it takes the files for stale. */
  asksFreshness?: boolean;
  /** Expected `changed`; the state follows from jj's answer. */
  changed?: readonly string[];
}

afterAll(removeTempDirs);

let plain: string;
let staleTemplate: string;
let colocated: string;

beforeAll(async () => {
  plain = await prepare(false);
  colocated = await prepare(true);
  staleTemplate = await prepare(false);
  await amendParent(sceneIn(staleTemplate));
}, TIMEOUT_MS);

/** main with `base` and the described parent change, child with files of every kind, all of it recorded and settled. */
async function prepare(colocate: boolean): Promise<string> {
  const repo = await makeRepo({ colocated: colocate });
  repo.write("p.txt", "p1\n");
  repo.write("gone.txt", "will be deleted by the parent\n");
  await repo.jj(["describe", "--quiet", "-m", "parent"]);
  const scene = sceneIn(repo.dir);
  await repo.jj([
    "workspace",
    "add",
    "--quiet",
    colocate ? "--colocate" : "--no-colocate",
    "--name",
    "child",
    "-r",
    "@",
    "-m",
    "child",
    scene.child,
  ]);
  await scene.sh(`
    mkdir -p d/e; echo x > d/e/f; echo y > d/g; echo keep > tracked.log; ln -s base.txt sl
    printf '#!/bin/sh\\n' > ex.sh; chmod +x ex.sh; printf '*.tmp\\n!keep.tmp\\n' > d/.gitignore`);
  await scene.jj(["file", "track", "--quiet", "--include-ignored", "tracked.log"], scene.child);
  await scene.jj(["util", "snapshot", "--quiet"], scene.child);
  settle(scene.child);
  return repo.dir;
}

function sceneIn(dir: string): Scene {
  const repo = personIn(dir, join(dir, "repo"));
  const child = join(dir, "child");
  return {
    ...repo,
    child,
    async sh(script) {
      const result = await runAs(repo.env, ["sh", "-ec", script], child);
      if (result.code !== 0) throw new Error(`${script}: ${result.stderr}`);
    },
  };
}

/** jj trusts a file's time only when it is older than the record: make everything recorded so far old enough. */
function settle(workspace: string): void {
  const later = new Date(Date.now() + 50);
  utimesSync(join(workspace, ".jj/working_copy/tree_state"), later, later);
}

async function amendParent(scene: Scene): Promise<void> {
  scene.write("p.txt", "p1\np2\n");
  scene.write("new-from-parent.txt", "n\n");
  scene.write("out/made-by-parent", "m\n");
  scene.remove("gone.txt");
  await scene.jj(["util", "snapshot", "--quiet"]);
}

async function probe(scene: Scene, workspace = "child"): Promise<WorkspaceProbe> {
  const jj = createJj({ env: scene.env });
  const repo = jj.open((await jj.locate(scene.root))!, join(scene.dir, "neutral"));
  const [head] = await repo.heads();
  return repo.probe(scene.child, workspace, head!);
}

/** What jj makes of the same files: Clean when `@` is still the commit it had recorded before it looked. */
async function askJj(scene: Scene, answer: WorkspaceProbe): Promise<"Clean" | "Dirty"> {
  if (!answer.state.startsWith("Fresh")) {
    await scene.jj(["workspace", "update-stale", "--quiet"], scene.child);
  }
  const at = ["log", "--no-graph", "-r", "@", "-T", 'commit_id ++ " " ++ divergent'];
  const now = await scene.tryJj(at, scene.child);
  return now.stdout === `${answer.recordedCommit} false` ? "Clean" : "Dirty";
}

/** Copies the template, acts, probes (nothing may be written), asks jj. */
async function play(
  template: string,
  c: Case,
): Promise<{ answer: WorkspaceProbe; jj: string; stale: boolean }> {
  const scene = await sceneFrom(template);
  const { dir } = scene;
  if (typeof c.act === "string") await scene.sh(c.act);
  else await c.act?.(scene);
  const before = treeOf(dir);
  const answer = await probe(scene);
  expect(treeChanges(before, treeOf(dir))).toEqual([]);
  const status = ["--no-integrate-operation", "st"];
  const stale =
    c.asksFreshness && (await scene.tryJj(status, scene.child)).stderr.includes("is stale");
  return { answer, jj: await askJj(scene, answer), stale: stale === true };
}

const FRESH: readonly Case[] = [
  { name: "nothing done" },
  { name: "file touched only", act: "touch base.txt" },
  { name: "same content written again", act: "cat base.txt > z; cat z > base.txt; rm z" },
  { name: "file modified", act: "echo q >> base.txt", changed: ["M base.txt"] },
  {
    name: "same size, other content",
    act: "tr 1 9 < base.txt > z; mv z base.txt",
    changed: ["M base.txt"],
  },
  { name: "file deleted", act: "rm d/g", changed: ["D d/g"] },
  { name: "exec bit set", act: "chmod +x base.txt", changed: ["M base.txt"] },
  { name: "exec bit cleared", act: "chmod -x ex.sh", changed: ["M ex.sh"] },
  { name: "other permission bits", act: "chmod 600 base.txt" },
  { name: "symlink retargeted", act: "ln -sfn p.txt sl", changed: ["M sl"] },
  { name: "symlink → file", act: "rm sl; cp base.txt sl", changed: ["M sl"] },
  { name: "file → symlink", act: "rm d/g; ln -s x d/g", changed: ["M d/g"] },
  {
    name: "file → folder",
    act: "rm d/g; mkdir d/g; echo 1 > d/g/h",
    changed: ["A d/g/h", "T d/g"],
  },
  { name: "file → empty folder", act: "rm d/g; mkdir d/g", changed: ["T d/g"] },
  { name: "folder → symlink", act: "mv d d2; ln -s d2 d" },
  { name: "file renamed", act: "mv base.txt moved.txt", changed: ["A moved.txt", "D base.txt"] },
  { name: "new ignored files", act: "echo 1 > a.log; mkdir build; echo 1 > build/x" },
  { name: "new file ignored by a nested .gitignore", act: "echo 1 > d/a.tmp" },
  {
    name: "new file un-ignored by a nested .gitignore",
    act: "echo 1 > d/keep.tmp",
    changed: ["A d/keep.tmp"],
  },
  {
    name: "tracked but ignored file modified",
    act: "echo 1 >> tracked.log",
    changed: ["M tracked.log"],
  },
  { name: "new file", act: "echo 1 > new", changed: ["A new"] },
  {
    name: "new file in new folders",
    act: "mkdir -p q/w/e; echo 1 > q/w/e/r",
    changed: ["A q/w/e/r"],
  },
  { name: "empty folder", act: "mkdir -p zz/yy" },
  {
    name: "names with space, umlaut, newline",
    act: 'echo 1 > "a b"; echo 1 > "ü"; printf 1 > "$(printf "a\\nb")"',
    changed: ["A a\nb", "A a b", "A ü"],
  },
  {
    name: "name with a replacement character",
    act: 'printf 1 > "$(printf "a\\357\\277\\275")"',
    changed: ["A a\ufffd"],
  },
  { name: "name that is not UTF-8", act: 'printf 1 > "$(printf "a\\377")"' },
  { name: "nested git repository", act: "git init -q nest; echo 1 > nest/f" },
  { name: "nested folder with .jj", act: "mkdir -p nest/.jj; echo 1 > nest/f" },
  { name: "nested folder with an empty .git", act: "mkdir -p nest/.git; echo 1 > nest/f" },
  { name: "nested repository two levels down", act: "mkdir -p n4/sub/.git; echo 1 > n4/sub/f" },
  { name: "tracked folder becomes a nested repository", act: "mkdir d/.git; echo z >> d/g" },
  { name: "big new file", act: "head -c 1048577 /dev/zero > big" },
  {
    name: "new file of just the size limit",
    act: "head -c 1048576 /dev/zero > big",
    changed: ["A big"],
  },
  { name: "fifo", act: "mkfifo ff" },
  { name: "file → fifo", act: "rm d/g; mkfifo d/g", changed: ["T d/g"] },
  { name: ".git file that is nobody's", act: 'echo "gitdir: x" > .git' },
  { name: "new broken symlink", act: "ln -s nowhere nl", changed: ["A nl"] },
  { name: ".gitignore modified", act: "echo zz >> .gitignore", changed: ["M .gitignore"] },
  {
    name: "newly ignored tracked file",
    act: "echo base.txt >> .gitignore; echo more >> base.txt",
    changed: ["M .gitignore", "M base.txt"],
  },
  {
    name: "ignored by info/exclude",
    act: 'G=$(jj --ignore-working-copy git root); mkdir -p "$G/info"; echo secret > "$G/info/exclude"; echo 1 > secret',
  },
  {
    name: "ignored by the person's own git ignore file",
    act: 'mkdir -p "$XDG_CONFIG_HOME/git"; echo mine > "$XDG_CONFIG_HOME/git/ignore"; echo 1 > mine',
  },
  {
    name: "ignored folder's file tracked, then modified",
    act: "mkdir -p build; echo 1 > build/t; jj file track --quiet --include-ignored build/t; jj util snapshot --quiet; echo two >> build/t",
  },
  {
    name: "`jj file track` not yet recorded",
    act: "echo 1 > k.log; jj file track --quiet --include-ignored k.log",
  },
  {
    name: "size limit set in the configuration",
    act: 'printf "[snapshot]\\nmax-new-file-size = 10\\n" >> "$JJ_CONFIG"; echo 01234567890123 > big; echo 1 > small',
    changed: ["A small"],
  },
  {
    name: "parent reworded only",
    act: async (s) => void (await s.jj(["describe", "--quiet", "-m", "reworded"])),
  },
  {
    name: "parent reworded, then file modified",
    act: async (s) => {
      await s.jj(["describe", "--quiet", "-m", "reworded"]);
      s.write("p.txt", "mine\n", s.child);
    },
    changed: ["M p.txt"],
  },
];

describe("probe, fresh workspace", () => {
  for (const c of FRESH) {
    test.concurrent(
      `probe: ${c.name} → what jj says`,
      async () => {
        const { answer, jj } = await play(plain, c);
        expect(answer).toMatchObject({ state: `Fresh${jj}`, reason: null });
        if (c.changed !== undefined) expect(answer.changed).toEqual([...c.changed].sort());
        else if (jj === "Clean") expect(answer.changed).toEqual([]);
      },
      TIMEOUT_MS,
    );
  }
});

const STALE: readonly Case[] = [
  { name: "nothing done" },
  { name: "file touched only", act: "touch p.txt base.txt" },
  { name: "own file modified", act: "echo q >> d/g", changed: ["M d/g"] },
  { name: "file the parent changed modified", act: "echo mine >> p.txt", changed: ["M p.txt"] },
  {
    name: "file the parent deleted modified",
    act: "echo mine >> gone.txt",
    changed: ["M gone.txt"],
  },
  { name: "file the parent deleted deleted", act: "rm gone.txt", changed: ["D gone.txt"] },
  { name: "new file", act: "echo 1 > new", changed: ["A new"] },
  {
    name: "the parent's new file made here too",
    act: "echo other > new-from-parent.txt",
    changed: ["A new-from-parent.txt", "C new-from-parent.txt"],
  },
  { name: "exec bit set", act: "chmod +x base.txt", changed: ["M base.txt"] },
  {
    name: "ignored files that nobody else has",
    act: "echo 1 > a.log; mkdir build; echo 1 > build/x",
  },
  {
    name: "big untracked file where the parent has one",
    act: "head -c 1100000 /dev/zero > new-from-parent.txt",
    changed: ["C new-from-parent.txt"],
  },
  {
    name: "ignored file where the parent has a folder",
    act: 'G=$(jj --ignore-working-copy git root); mkdir -p "$G/info"; echo /out > "$G/info/exclude"; echo 1 > out',
    changed: ["C out"],
  },
  {
    name: "ignored symlink where the parent has a folder",
    act: 'G=$(jj --ignore-working-copy git root); mkdir -p "$G/info"; echo /out > "$G/info/exclude"; mkdir ../o; ln -s ../o out',
    changed: ["C out"],
  },
  {
    name: "ignored file where the parent has one",
    act: 'G=$(jj --ignore-working-copy git root); mkdir -p "$G/info"; echo /new-from-parent.txt > "$G/info/exclude"; echo 1 > new-from-parent.txt',
    changed: ["C new-from-parent.txt"],
  },
  {
    name: "ignored folder where the parent has a file",
    act: 'G=$(jj --ignore-working-copy git root); mkdir -p "$G/info"; echo /new-from-parent.txt > "$G/info/exclude"; mkdir new-from-parent.txt; echo 1 > new-from-parent.txt/x',
    changed: ["C new-from-parent.txt"],
  },
  { name: "empty folder where the parent has a folder", act: "mkdir out" },
  {
    name: "own folder has become a file in the parent's rewrite",
    act: async (s) => {
      await replaceFolderInChild(s);
    },
  },
  {
    name: "the same, with an ignored file left in the folder",
    act: async (s) => {
      await replaceFolderInChild(s);
      s.write("d/left.tmp", "1", s.child);
    },
    changed: ["C d"],
  },
];

/** The child's own commit is rewritten from outside: folder `d` becomes a file. */
async function replaceFolderInChild(scene: Scene): Promise<void> {
  const other = join(scene.dir, "other");
  await scene.jj([
    "workspace",
    "add",
    "--quiet",
    "--no-colocate",
    "--name",
    "other",
    "-r",
    "child@",
    other,
  ]);
  scene.remove("d", other);
  scene.write("d", "a file now\n", other);
  await scene.jj(["squash", "--quiet", "-u"], other);
}

describe("probe, stale workspace", () => {
  for (const c of STALE) {
    test.concurrent(
      `probe: ${c.name} → what jj's update-stale shows`,
      async () => {
        const { answer, jj } = await play(staleTemplate, c);
        expect(answer).toMatchObject({ state: `Stale${jj}`, reason: null });
        expect(answer.changed).toEqual([...(c.changed ?? [])].sort());
      },
      TIMEOUT_MS,
    );
  }

  test.concurrent(
    "probe: the same workspace → stale for the probe exactly when it is for jj",
    async () => {
      for (const [template, stale] of [
        [plain, false],
        [staleTemplate, true],
      ] as const) {
        const scene = await sceneFrom(template);
        const { state } = await probe(scene);
        const { stderr } = await scene.tryJj(["st"], scene.child);
        expect([state.startsWith("Stale"), stderr.includes("is stale")]).toEqual([stale, stale]);
      }
    },
    TIMEOUT_MS,
  );
});

const amended =
  (act?: string) =>
  async (scene: Scene): Promise<void> => {
    await amendParent(scene);
    if (act !== undefined) await scene.sh(act);
  };
const reword = (scene: Scene) => scene.jj(["describe", "--quiet", "-m", "reworded"]);

const COLOCATED: readonly (Case & { state: string })[] = [
  { name: "nothing done", state: "FreshClean" },
  {
    name: "file modified",
    act: "echo q >> base.txt",
    state: "FreshDirty",
    changed: ["M base.txt"],
  },
  { name: "`git add` of nothing new", act: "git add -A", state: "FreshClean" },
  {
    name: "`git add` of a new file",
    act: "echo 1 > new; git add new",
    state: "FreshDirty",
    changed: ["A new"],
  },
  {
    name: "`git commit`",
    act: "git commit -qam 'by the agent'",
    state: "FreshDirty",
    changed: ["H HEAD"],
  },
  {
    name: "`git commit --allow-empty`",
    act: "git commit -q --allow-empty -m empty",
    state: "FreshDirty",
    changed: ["H HEAD"],
  },
  { name: "`git switch -c` on the spot", act: "git switch -qc topic", state: "FreshClean" },
  {
    name: "`git checkout` of the grandparent",
    act: "git add -A; git checkout -qf HEAD~1",
    state: "FreshDirty",
  },
  { name: "parent reworded", act: async (s) => void (await reword(s)), state: "FreshClean" },
  // The clean `jj st` moves the checkout on and leaves HEAD on the commit before the reword.
  {
    name: "parent reworded, then a clean `jj st`",
    act: async (s) => {
      await reword(s);
      await s.jj(["st"], s.child);
    },
    state: "FreshClean",
  },
  {
    name: "parent reworded, `jj st`, then amended",
    act: async (s) => {
      await reword(s);
      await s.jj(["st"], s.child);
      await amendParent(s);
    },
    state: "StaleClean",
    changed: [],
  },
  { name: "parent amended", act: amended(), state: "StaleClean", changed: [] },
  {
    name: "parent amended, `git add` here",
    act: amended("git add -A"),
    state: "StaleClean",
    changed: [],
  },
  {
    name: "parent amended, file modified here",
    act: amended("echo q >> d/g"),
    state: "StaleDirty",
    changed: ["M d/g"],
  },
  {
    name: "parent amended, `git commit` here",
    act: amended("git commit -qam 'by the agent'"),
    state: "StaleDirty",
    changed: ["H HEAD"],
  },
  {
    name: "`git commit` here, then parent amended",
    act: async (s) => {
      await s.sh("git commit -qam 'by the agent'");
      await amendParent(s);
    },
    state: "StaleDirty",
    changed: ["H HEAD"],
  },
];

describe("probe, colocated workspace", () => {
  for (const c of COLOCATED) {
    test.concurrent(
      `probe: ${c.name} → ${c.state}, as jj shows`,
      async () => {
        const { answer, jj } = await play(colocated, c);
        expect(answer).toMatchObject({ state: c.state, reason: null });
        expect(c.state).toEndWith(jj);
        if (c.changed !== undefined) expect(answer.changed).toEqual([...c.changed]);
      },
      TIMEOUT_MS,
    );
  }
});

/** The child holds a checked-out conflict in p.txt. */
async function conflict(scene: Scene): Promise<void> {
  scene.write("p.txt", "the child's\n", scene.child);
  await scene.jj(["util", "snapshot", "--quiet"], scene.child);
  await amendParent(scene);
  await scene.jj(["workspace", "update-stale", "--quiet"], scene.child);
  settle(scene.child);
}

const conflicted =
  (act?: string) =>
  async (scene: Scene): Promise<void> => {
    await conflict(scene);
    if (act !== undefined) await scene.sh(act);
  };

const CONFLICTED: readonly (Case & { state: string })[] = [
  { name: "nothing done", act: conflicted(), state: "FreshClean", changed: [] },
  {
    name: "conflicted file touched",
    act: conflicted("touch p.txt"),
    state: "FreshClean",
    changed: [],
  },
  {
    name: "conflict resolved",
    act: conflicted("echo both > p.txt"),
    state: "FreshDirty",
    changed: ["M p.txt"],
  },
  {
    name: "other file touched",
    act: conflicted("touch base.txt"),
    state: "FreshClean",
    changed: [],
  },
  {
    name: "other file modified",
    act: conflicted("echo q >> d/g"),
    state: "FreshDirty",
    changed: ["M d/g"],
  },
  {
    name: "parent amended again",
    act: async (s) => {
      await conflict(s);
      s.write("p.txt", "the parent's once more\n");
      await s.jj(["util", "snapshot", "--quiet"]);
    },
    state: "StaleClean",
    changed: [],
  },
  {
    name: "parent amended again, conflict resolved here",
    act: async (s) => {
      await conflict(s);
      s.write("p.txt", "the parent's once more\n");
      await s.jj(["util", "snapshot", "--quiet"]);
      s.write("p.txt", "both\n", s.child);
    },
    state: "StaleDirty",
    changed: ["M p.txt"],
  },
  {
    // The same trees; but the commit's conflict labels, which stand in the file's markers, may change.
    name: "conflicted commit rebased onto an equal parent",
    act: async (s) => {
      await conflict(s);
      await s.jj(["new", "--quiet", "-m", "empty"]);
      await s.jj(["rebase", "--quiet", "-r", "child@", "-o", "default@"]);
    },
    asksFreshness: true,
    state: "",
  },
];

describe("probe, conflicted workspace", () => {
  for (const c of CONFLICTED) {
    test.concurrent(
      `probe: ${c.name} → ${c.state || "as stale as for jj"}, as jj shows`,
      async () => {
        const { answer, jj, stale } = await play(plain, c);
        expect(answer).toMatchObject({ reason: null });
        expect<string>(answer.state).toBe(c.state || `${stale ? "Stale" : "Fresh"}Clean`);
        expect(answer.state).toEndWith(jj);
        if (c.changed !== undefined) expect(answer.changed).toEqual([...c.changed]);
      },
      TIMEOUT_MS,
    );
  }
});

async function sceneFrom(template: string): Promise<Scene> {
  const dir = join(tempDir("probe"), "copy");
  await copyTree(template, dir);
  return sceneIn(dir);
}

/** Set-up recipes on real files and processes: what is copied, what never is, and that nothing is left running. */
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  watch,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { processesFor } from "../../src/backends/processes/select.ts";
import { createRecipes } from "../../src/backends/recipes.ts";
import { SETUP_MARKER, setupArgv } from "../../src/core/setup.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";

const processes = processesFor();
const recipes = createRecipes(processes);
afterAll(removeTempDirs);

interface Places {
  dir: string;
  root: string;
  workspace: string;
  put(path: string, text: string): void;
}

function places(): Places {
  const dir = tempDir("recipes");
  const [root, workspace] = [join(dir, "main"), join(dir, "thread")];
  for (const folder of [root, workspace]) mkdirSync(folder);
  return {
    dir,
    root,
    workspace,
    put(path, text) {
      const file = join(root, path);
      mkdirSync(join(file, ".."), { recursive: true });
      writeFileSync(file, text);
    },
  };
}

describe("match", () => {
  test("match: names, globs, folders → plain files, sorted, each once; nothing of jj's or git's", async () => {
    const p = places();
    for (const file of [".env", "config/a.json", "config/b.json", "config/.jj/x", ".jj/y", "z.txt"])
      p.put(file, file);
    expect(await recipes.match(p.root, ["config", "**/*.json", ".env", "./z.txt"])).toEqual({
      files: [".env", "config/a.json", "config/b.json", "z.txt"],
      missing: [],
      problems: [],
    });
  });

  test("match: nothing there → missing; out of the repository, jj's own, absolute → named as problems", async () => {
    const p = places();
    p.put(".jj/repo/x", "x");
    writeFileSync(join(p.dir, "secret"), "s");
    symlinkSync(join(p.dir, "secret"), join(p.root, "out"));
    symlinkSync("nowhere", join(p.root, "dangling"));
    const patterns = [
      "none",
      "*.none",
      "../secret",
      "/etc/passwd",
      ".jj/repo/x",
      "out",
      "dangling",
    ];
    const found = await recipes.match(p.root, patterns);
    expect(found.files).toEqual([]);
    expect(found.missing).toEqual(["none", "*.none", "out", "dangling"]);
    expect(found.problems).toEqual([
      "../secret leads out of the repository",
      "/etc/passwd is not relative",
      ".jj/repo/x belongs to jj or git",
      "out is a symlink out of the repository",
      "dangling is a symlink to nothing",
    ]);
  });
});

describe("match: a tree that is not tidy", () => {
  test("match: names that are not UTF-8, a file that is too large → problems by name, the rest is found", async () => {
    const p = places();
    p.put("conf/good", "x");
    writeFileSync(Buffer.concat([Buffer.from(`${p.root}/conf/`), Buffer.from([0xff])]), "x");
    p.put("big", "");
    truncateSync(join(p.root, "big"), 65 * 1024 * 1024);
    for (const pattern of ["conf", "conf/*", "**/*"]) {
      const { files, problems } = await recipes.match(p.root, [pattern, "big"]);
      expect([files, problems.toSorted()]).toEqual([
        ["conf/good"],
        ["big is larger than 64 MiB", "conf/\ufffd has a name that is not UTF-8"],
      ]);
    }
  });

  test("match: a folder that cannot be read → said, and what is beside it is found", async () => {
    const p = places();
    for (const file of ["data/pg", ".env", "sub/.env"]) p.put(file, file);
    // To root every folder is readable, but one whose path is longer than a path can be.
    const sh = (script: string) =>
      expect(Bun.spawnSync(["sh", "-c", script], { cwd: join(p.root, "data") }).exitCode).toBe(0);
    sh("n=$(printf %0200d 0); for i in $(seq 22); do mkdir $n && cd -P $n || exit; done");
    const { files, problems } = await recipes.match(p.root, ["**/.env"]);
    sh("rm -rf ./0*");
    expect(files).toEqual([".env", "sub/.env"]);
    expect(problems).toEqual([
      expect.stringMatching(/^data\/0{200}.* cannot be read \(E[A-Z]+\)$/),
    ]);
  });

  test("match: pattern below a symlink out → one problem, whatever lies there; without ** only as deep as it says", async () => {
    const p = places();
    for (const file of ["a.env", "x/b.env", "x/y/c.env", "x/y/z/d.env"]) p.put(file, file);
    mkdirSync(join(p.dir, "outside"));
    for (const name of ["1", "2"]) writeFileSync(join(p.dir, "outside", name), "s");
    symlinkSync(join(p.dir, "outside"), join(p.root, "out"));
    expect(await recipes.match(p.root, ["out/*", "*.env", "x/*/{c,d}.env"])).toEqual({
      files: ["a.env", "x/y/c.env"],
      missing: ["out/*"],
      problems: ["out is a symlink out of the repository"],
    });
  });
});

describe("copy", () => {
  test("copy: bytes and permission bits arrive, a symlink that stays inside becomes a file; again → same result", async () => {
    const p = places();
    p.put("bin/run", "#!/bin/sh\n");
    chmodSync(join(p.root, "bin/run"), 0o750);
    p.put("real.env", "A=1\n");
    symlinkSync("real.env", join(p.root, ".env"));
    const first = await recipes.copy(p.root, p.workspace, [".env", "bin/run"]);
    expect(first.copied.map((c) => c.path)).toEqual([".env", "bin/run"]);
    expect(readFileSync(join(p.workspace, ".env"), "utf8")).toBe("A=1\n");
    expect(lstatSync(join(p.workspace, ".env")).isFile()).toBe(true);
    expect(statSync(join(p.workspace, "bin/run")).mode & 0o777).toBe(0o750);
    expect(await recipes.copy(p.root, p.workspace, [".env", "bin/run"])).toEqual(first);
    expect(readdirSync(p.workspace).sort()).toEqual([".env", "bin"]);
  });

  test("copy: something there already → left as it is, a symlink too", async () => {
    const p = places();
    p.put("a", "new");
    p.put("b", "new");
    writeFileSync(join(p.workspace, "a"), "mine");
    symlinkSync(join(p.dir, "elsewhere"), join(p.workspace, "b"));
    const { copied, notes } = await recipes.copy(p.root, p.workspace, ["a", "b"]);
    expect([copied, notes.length]).toEqual([[], 2]);
    expect(readFileSync(join(p.workspace, "a"), "utf8")).toBe("mine");
    expect(existsSync(join(p.dir, "elsewhere"))).toBe(false);
  });

  test("copy: a folder of the workspace is a symlink out of it → nothing is written through it", async () => {
    const p = places();
    p.put("config/a", "secret");
    mkdirSync(join(p.dir, "outside"));
    symlinkSync(join(p.dir, "outside"), join(p.workspace, "config"));
    const { copied, problems } = await recipes.copy(p.root, p.workspace, ["config/a"]);
    expect(copied).toEqual([]);
    expect(problems).toEqual(["config/a not copied: config is no folder in the new workspace"]);
    expect(readdirSync(join(p.dir, "outside"))).toEqual([]);
  });

  test("copy: an ignored file → never, not even for a moment, under a name jj would take into a commit", async () => {
    const p = places();
    p.put(".env", "KEY=1\n");
    mkdirSync(join(p.workspace, ".jj"));
    const seen = new Set<string>();
    const watcher = watch(p.workspace, (_event, name) => seen.add(name ?? ""));
    await recipes.copy(p.root, p.workspace, [".env"]);
    await waitFor(() => seen.has(".env"), 5_000, "the copy was seen");
    watcher.close();
    expect([...seen]).toEqual([".env"]);
    expect(readdirSync(join(p.workspace, ".jj"))).toEqual([]);
  });

  test("copy, match: much to do → others are served meanwhile", async () => {
    const p = places();
    for (let n = 0; n < 40; n += 1) p.put(`d${n}/file`, "x".repeat(100_000));
    let turns = 0;
    const timer = setInterval(() => (turns += 1), 0);
    const { files } = await recipes.match(p.root, ["**/file"]);
    const whileMatching = turns;
    await recipes.copy(p.root, p.workspace, files);
    clearInterval(timer);
    expect(files).toHaveLength(40);
    expect([whileMatching > 0, turns > whileMatching]).toEqual([true, true]);
  });

  test("copy: source became a symlink out after the plan → not copied", async () => {
    const p = places();
    p.put("a", "x");
    writeFileSync(join(p.dir, "secret"), "s");
    rmSync(join(p.root, "a"));
    symlinkSync(join(p.dir, "secret"), join(p.root, "a"));
    const { copied, problems } = await recipes.copy(p.root, p.workspace, ["a"]);
    expect([copied, problems]).toEqual([[], ["a is a symlink out of the repository"]]);
    expect(existsSync(join(p.workspace, "a"))).toBe(false);
  });

  test("uncopy: changed meanwhile → stays; unchanged → gone, with folders that are empty by it", async () => {
    const p = places();
    for (const file of ["x/y/a", "x/b", "c"]) p.put(file, file);
    const { copied } = await recipes.copy(p.root, p.workspace, ["x/y/a", "x/b", "c"]);
    writeFileSync(join(p.workspace, "c"), "edited");
    await recipes.uncopy(p.workspace, copied);
    expect(readdirSync(p.workspace)).toEqual(["c"]);
    // Once more, as after a crash.
    await recipes.uncopy(p.workspace, copied);
    expect(readdirSync(p.workspace)).toEqual(["c"]);
  });

  test("uncopy: a folder became a symlink to the main workspace's → what was copied from stays", async () => {
    const p = places();
    for (const file of ["conf/secret", "deep/er/key"]) p.put(file, file);
    const { copied } = await recipes.copy(p.root, p.workspace, ["conf/secret", "deep/er/key"]);
    for (const folder of ["conf", "deep"]) {
      rmSync(join(p.workspace, folder), { recursive: true });
      symlinkSync(join(p.root, folder), join(p.workspace, folder));
    }
    await recipes.uncopy(p.workspace, copied);
    expect(readFileSync(join(p.root, "conf/secret"), "utf8")).toBe("conf/secret");
    expect(readFileSync(join(p.root, "deep/er/key"), "utf8")).toBe("deep/er/key");
    expect(lstatSync(join(p.workspace, "conf")).isSymbolicLink()).toBe(true);
  });
});

describe("command", () => {
  let token = "";
  afterEach(async () => {
    await recipes.end(() => recipes.carrying(token), 0);
  });

  function start(p: Places, command: string): ReturnType<typeof recipes.start> & { files: Places } {
    token = `token-${Bun.randomUUIDv7()}`;
    return { ...again(p, command), files: p };
  }

  function again(p: Places, command: string): ReturnType<typeof recipes.start> {
    const [claim, status] = [join(p.dir, "claim"), join(p.dir, "status")];
    return recipes.start({
      argv: setupArgv(command, { token, claim, status }),
      cwd: p.workspace,
      env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin", [SETUP_MARKER]: token },
      log: join(p.dir, "log"),
    });
  }

  const status = (p: Places): string => readFileSync(join(p.dir, "status"), "utf8").trim();

  test("start: output of both streams in the log, exit status left behind", async () => {
    const p = places();
    await start(p, `printf 'out\\n'; printf 'err\\n' >&2; pwd; exit 7`).exited;
    expect(status(p)).toBe("7");
    expect(readFileSync(join(p.dir, "log"), "utf8")).toBe(`out\nerr\n${p.workspace}\n`);
    expect(statSync(join(p.dir, "log")).mode & 0o777).toBe(0o600);
    expect(recipes.lastLine(join(p.dir, "log"))).toBe(p.workspace);
  });

  test("start: twice, also at the same time → the command runs once", async () => {
    const p = places();
    const command = "echo run >> ran; cat";
    await Promise.all([start(p, command).exited, again(p, command).exited]);
    await again(p, command).exited;
    expect(readFileSync(join(p.workspace, "ran"), "utf8")).toBe("run\n");
  });

  test("end: a session that ignores SIGTERM, with a child in the background → all gone, and nothing else", async () => {
    const p = places();
    const other = Bun.spawn(["sleep", "60"], { env: { PATH: process.env["PATH"] ?? "" } });
    const { process: leader } = start(p, `trap '' TERM; sleep 60 & sleep 60`);
    await waitFor(() => recipes.ofSession(leader!.pid).length >= 4, 5_000, "the whole tree");
    const ended = await recipes.end(() => recipes.ofSession(leader!.pid), 50);
    expect(ended.length).toBeGreaterThanOrEqual(4);
    expect(recipes.carrying(token)).toEqual([]);
    expect(processes.identify(other.pid)).not.toBeNull();
    other.kill();
    await other.exited;
  });

  test("end: SIGTERM suffices → the command's status is still written", async () => {
    const p = places();
    const { process: leader, exited } = start(p, "sleep 60");
    await waitFor(() => recipes.ofSession(leader!.pid).length >= 3, 5_000, "the sleep");
    await recipes.end(() => recipes.ofSession(leader!.pid), 5_000);
    await exited;
    expect(status(p)).toBe("143");
  });

  test("carrying: a process that left the session and the group → still found by its environment", async () => {
    const p = places();
    const { process: leader, exited } = start(p, "setsid sleep 60 & echo started");
    await exited;
    const left = await waitFor(
      () => recipes.carrying(token).find((found) => found.pid !== leader!.pid),
      5_000,
      "the escaped process",
    );
    expect(recipes.ofSession(leader!.pid)).toEqual([]);
    await recipes.end(() => recipes.carrying(token), 1_000);
    expect(processes.identify(left.pid)).toBeNull();
  });

  test("trim: a log that grew too large → its newest half, and the command goes on writing after it", async () => {
    const p = places();
    const log = join(p.dir, "log");
    const { exited } = start(
      p,
      `i=0; while [ $i -lt 500 ]; do echo "line $i"; i=$((i+1)); done; while [ ! -e go ]; do sleep 0.02; done; echo last`,
    );
    await waitFor(() => readFileSync(log, "utf8").includes("line 499"), 5_000, "500 lines");
    recipes.trim(log, 1_000);
    writeFileSync(join(p.workspace, "go"), "");
    await exited;
    const text = readFileSync(log, "utf8");
    expect(text.length).toBeLessThan(700);
    expect(text).toStartWith("kiki: ");
    expect(text).toContain("line 498\nline 499\nlast\n");
  });
});

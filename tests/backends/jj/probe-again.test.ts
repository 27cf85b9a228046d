/**
 * A probe is made several times at one boundary. What it keeps from the one before (jj's settings, objects of the git
 * store) saves processes and never an answer.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import {
  mkdirSync,
  readFileSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { createJj } from "../../../src/backends/jj/backend.ts";
import type { WorkspaceProbe } from "../../../src/ports/jj.ts";
import { countedJj, type CountedJj } from "../../support/counted-jj.ts";
import { makeRepo, personIn, type TestRepo } from "../../support/jj-repo.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";
import { copyTree } from "../../support/tree.ts";

setDefaultTimeout(120_000);
afterAll(removeTempDirs);

let template: string;

/** A parent with files in folders, and a child workspace on it whose files are up to date. */
beforeAll(async () => {
  const repo = await makeRepo();
  for (const path of ["a/one.txt", "a/b/two.txt", "c/three.txt"]) repo.write(path, `${path}\n`);
  await repo.jj(["describe", "--quiet", "-m", "parent"]);
  const child = join(repo.dir, "child");
  const where = ["--quiet", "--no-colocate", "--name", "child", "-r", "@", "-m", "child"];
  await repo.jj(["workspace", "add", ...where, child]);
  template = repo.dir;
});

interface Scene extends TestRepo {
  child: string;
  counted: CountedJj;
  /** By one and the same prober. */
  probe(): Promise<WorkspaceProbe>;
}

async function scene(change: (env: Record<string, string>) => void = () => {}): Promise<Scene> {
  const dir = join(tempDir("again"), "copy");
  await copyTree(template, dir);
  const person = personIn(dir, join(dir, "repo"));
  const child = join(dir, "child");
  change(person.env);
  const counted = countedJj(dir, person.env, ["git"]);
  const backend = createJj({ env: counted.env });
  const repo = backend.open((await backend.locate(person.root))!, join(dir, "neutral"));
  const probe = async (): Promise<WorkspaceProbe> =>
    repo.probe(child, "child", (await repo.heads())[0]!);
  return { ...person, child, counted, probe };
}

/** Older than jj's record of them: nothing about them has to be read. */
function settle(s: Scene): void {
  const state = join(s.child, ".jj/working_copy/tree_state");
  const soon = statSync(state).mtimeMs / 1000 + 60;
  utimesSync(state, soon, soon);
}

test("probe again: nothing has changed → the same answer, no process", async () => {
  const s = await scene();
  settle(s);
  const first = await s.probe();
  s.counted.reset();
  expect(await s.probe()).toEqual(first);
  expect(first.state).toBe("FreshClean");
  expect(s.counted.calls()).toEqual([]);
});

test("probe again: the parent was amended → StaleClean, only what is new is read, without git", async () => {
  const s = await scene();
  settle(s);
  await s.probe();
  s.write("a/b/two.txt", "amended\n");
  await s.jj(["status"]);
  s.counted.reset();
  expect((await s.probe()).state).toBe("StaleClean");
  expect(s.counted.calls()).toEqual([]);
});

/** Seconds since the epoch. */
const LONG_AGO = 1_000_000_000;
const JJ_HOME = (env: Record<string, string>): void => {
  delete env["JJ_CONFIG"];
};
const NEW_SETTINGS: readonly {
  where: string;
  env?: (env: Record<string, string>) => void;
  before?: (s: Scene) => Promise<void> | void;
  act: (s: Scene) => Promise<void> | void;
}[] = [
  {
    where: "the person's file, of the same size and with its old time",
    before(s) {
      append(s.env["JJ_CONFIG"]!, '[snapshot]\nauto-track = "all()"#  \n');
      utimesSync(s.env["JJ_CONFIG"]!, LONG_AGO, LONG_AGO);
    },
    act(s) {
      const file = s.env["JJ_CONFIG"]!;
      const text = readFileSync(file, "utf8");
      writeFileSync(file, text.replace('"all()"#  ', '"none()"# '));
      utimesSync(file, LONG_AGO, LONG_AGO);
    },
  },
  {
    where: "the repository's settings, which there were none of",
    act: async (s) =>
      void (await s.jj(["config", "set", "--repo", "snapshot.auto-track", "none()"])),
  },
  {
    where: "the repository's settings, again",
    before: async (s) => void (await s.jj(["config", "set", "--repo", "ui.editor", "ed"])),
    act: async (s) =>
      void (await s.jj(["config", "set", "--repo", "snapshot.auto-track", "none()"])),
  },
  {
    where: "the workspace's settings",
    act: async (s) =>
      void (await s.jj(["config", "set", "--workspace", "snapshot.auto-track", "none()"], s.child)),
  },
  {
    where: "a new file in the person's conf.d",
    env: JJ_HOME,
    act: (s) => append(join(s.env["HOME"]!, ".config/jj/conf.d/more.toml"), NONE),
  },
  {
    where: "a new .jjconfig.toml",
    env: JJ_HOME,
    act: (s) => append(join(s.env["HOME"]!, ".jjconfig.toml"), NONE),
  },
  {
    where: "a new file in a folder that JJ_CONFIG names",
    env: (env) => (env["JJ_CONFIG"] = `${env["JJ_CONFIG"]}:${env["HOME"]}/more`),
    before: (s) => append(join(s.env["HOME"]!, "more/one.toml"), "[ui]\neditor = 'ed'\n"),
    act: (s) => append(join(s.env["HOME"]!, "more/two.toml"), NONE),
  },
];
const NONE = '[snapshot]\nauto-track = "none()"\n';

for (const { where, env, before, act } of NEW_SETTINGS) {
  test(`probe again: another setting in ${where} → noticed`, async () => {
    const s = await scene(env);
    await before?.(s);
    expect((await s.probe()).state).toBe("FreshClean");
    s.counted.reset();
    await s.probe();
    expect(s.counted.calls().filter((call) => call.includes("config list"))).toEqual([]);
    await act(s);
    expect((await s.probe()).reason).toStartWith("unsupported: the setting snapshot.auto-track");
  });
}

test("probe again: jj failed to say its settings → asked again, although no file has changed", async () => {
  const s = await scene();
  const jj = join(s.dir, "counted/jj");
  const script = readFileSync(jj, "utf8");
  writeFileSync(jj, script.replace("exec", '[ -e "$HOME/broken" ] && exit 1\nexec'));
  s.write("broken", "", s.env["HOME"]);
  expect((await s.probe()).reason).toStartWith("unsupported: jj could not read its settings");
  s.remove("broken", s.env["HOME"]);
  expect((await s.probe()).state).toBe("FreshClean");
});

test("probe again: everything packed meanwhile, in a new daemon as well → the same answer", async () => {
  const s = await scene();
  s.write("a/b/two.txt", "amended\n");
  await s.jj(["status"]);
  const before = await s.probe();
  const store = join(s.root, ".jj/repo/store/git");
  await s.git(["--git-dir", store, "repack", "-adq"]);
  await s.git(["--git-dir", store, "prune-packed", "-q"]);
  expect(before.state).toBe("StaleClean");
  expect(await s.probe()).toEqual(before);
  const fresh = createJj({ env: s.counted.env });
  const repo = fresh.open((await fresh.locate(s.root))!, join(s.dir, "neutral"));
  s.counted.reset();
  expect(await repo.probe(s.child, "child", (await repo.heads())[0]!)).toEqual(before);
  expect(s.counted.calls().some((call) => call.includes("ls-tree"))).toBe(true);
});

test("probe: an object's file is cut short → not taken for the object", async () => {
  const s = await scene();
  s.write("a/b/two.txt", "amended\n");
  await s.jj(["status"]);
  const commit = await s.commit("default@");
  const store = join(s.root, ".jj/repo/store/git");
  const tree = (await s.git(["--git-dir", store, "rev-parse", `${commit}^{tree}`])).trim();
  const file = join(store, "objects", tree.slice(0, 2), tree.slice(2));
  await s.git(["--git-dir", store, "cat-file", "-e", tree]);
  await Bun.$`chmod u+w ${file}`.quiet();
  truncateSync(file, statSync(file).size - 4);
  const probe = await s.probe();
  expect(probe.state).toBe("Unknown");
  expect(probe.reason).toStartWith("unreadable: ");
});

test("probe: new file deep among tracked ones, ignored file beside it → the new one, as git sees it", async () => {
  const s = await scene();
  settle(s);
  s.write("a/b/x.log", "ignored\n", s.child);
  expect((await s.probe()).changed).toEqual([]);
  s.write("a/b/new.txt", "new\n", s.child);
  expect((await s.probe()).changed).toEqual(["A a/b/new.txt"]);
  s.remove("a/b/new.txt", s.child);
  mkdirSync(join(s.child, "c/.git"), { recursive: true });
  expect((await s.probe()).state).toBe("FreshClean");
});

function append(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text, { flag: "a" });
}

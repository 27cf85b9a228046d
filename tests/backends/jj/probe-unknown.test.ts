/** What the probe cannot prove it calls `Unknown`, with the reason; and what its fingerprint notices. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { realClock } from "../../../src/backends/clock.ts";
import { createJj, type JjOptions } from "../../../src/backends/jj/backend.ts";
import type { WorkspaceProbe } from "../../../src/ports/jj.ts";
import { holdLock } from "../../support/hold-lock.ts";
import { makeRepo, personIn, type TestRepo } from "../../support/jj-repo.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";
import { copyTree, treeChanges, treeOf } from "../../support/tree.ts";

const TIMEOUT_MS = 60_000;

interface Scene extends TestRepo {
  child: string;
}

let template: string;

beforeAll(async () => {
  const repo = await makeRepo();
  await repo.jj(["describe", "--quiet", "-m", "parent"]);
  await repo.jj([
    "workspace",
    "add",
    "--quiet",
    "--no-colocate",
    "--name",
    "child",
    "-r",
    "@",
    "-m",
    "child",
    join(repo.dir, "child"),
  ]);
  template = repo.dir;
}, TIMEOUT_MS);
afterAll(removeTempDirs);

async function scene(): Promise<Scene> {
  const dir = join(tempDir("unknown"), "copy");
  await copyTree(template, dir);
  return { ...personIn(dir, join(dir, "repo")), child: join(dir, "child") };
}

interface ProbeOptions extends JjOptions {
  workspace?: string;
  op?: string;
}

async function probe(s: Scene, options: ProbeOptions = {}): Promise<WorkspaceProbe> {
  const { workspace = "child", op, ...rest } = options;
  const jj = createJj({ env: s.env, ...rest });
  const repo = jj.open((await jj.locate(s.root))!, join(s.dir, "neutral"));
  return repo.probe(s.child, workspace, op ?? (await repo.heads())[0]!);
}

const UNKNOWN: readonly {
  name: string;
  reason: RegExp;
  act: (s: Scene) => Promise<ProbeOptions | void>;
}[] = [
  {
    name: "two operation heads",
    reason: /^heads: 2 concurrent operation heads/,
    async act(s) {
      const head = await s.head();
      await s.jj(["--at-op", head, "describe", "--quiet", "-m", "one"]);
      await s.jj(["--at-op", head, "describe", "--quiet", "-m", "two"]);
    },
  },
  {
    name: "workspace forgotten",
    reason: /^forgotten: /,
    act: async (s) => void (await s.jj(["workspace", "forget", "--quiet", "child"])),
  },
  {
    name: "checkout operation abandoned",
    reason: /^sibling-operation: the files are from operation [0-9a-f]{12}/,
    act: abandonCheckoutOperation,
  },
  {
    name: "checkout operation collected as garbage",
    reason: /^operation-lost: operation [0-9a-f]{12}, which the files are from, is gone/,
    async act(s) {
      await abandonCheckoutOperation(s);
      await s.jj(["util", "gc", "--quiet", "--expire", "now"]);
    },
  },
  {
    name: "sparse working copy",
    reason: /^unsupported: a sparse working copy/,
    act: async (s) => void (await s.jj(["sparse", "set", "--clear", "--add", "base.txt"], s.child)),
  },
  {
    name: "new files not tracked automatically",
    reason: /^unsupported: the setting snapshot\.auto-track = "none\(\)"/,
    act: async (s) =>
      void (await s.jj(["config", "set", "--repo", "snapshot.auto-track", "none()"])),
  },
  {
    name: "line endings converted",
    reason: /^unsupported: the setting working-copy\.eol-conversion/,
    act: async (s) =>
      void (await s.jj(
        ["config", "set", "--workspace", "working-copy.eol-conversion", "input"],
        s.child,
      )),
  },
  {
    name: "configuration that does not parse",
    reason: /^unsupported: jj could not read its settings/,
    act: async (s) => writeFileSync(s.env["JJ_CONFIG"]!, "= nonsense"),
  },
  {
    name: "git submodule in the tree",
    reason: /^unsupported: the git submodule sub/,
    async act(s) {
      const store = join(s.root, ".jj/repo/store/git");
      const tree = await mktree(s, store, `160000 commit ${"1".repeat(40)}\tsub\n`);
      const commit = await s.git(["--git-dir", store, "commit-tree", tree, "-m", "with submodule"]);
      await s.git(["--git-dir", store, "update-ref", "refs/heads/sub", commit.trim()]);
      await s.jj(["git", "import", "--quiet"]);
      await s.jj(["new", "--quiet", "sub"], s.child);
    },
  },
  {
    name: "another workspace's name",
    reason: /^unreadable: the folder is workspace child, not other/,
    act: async () => ({ workspace: "other" }),
  },
  {
    name: "folder gone",
    reason: /^unreadable: .* is not there/,
    act: async (s) => rmSync(s.child, { recursive: true }),
  },
  {
    name: "no jj folder",
    reason: /^unreadable: .* is no workspace of this repository/,
    act: async (s) => rmSync(join(s.child, ".jj"), { recursive: true }),
  },
  {
    name: "checkout file garbled",
    reason: /^unreadable: /,
    act: async (s) => writeFileSync(join(s.child, ".jj/working_copy/checkout"), "\xff\xff\xff"),
  },
  {
    name: "tree state cut short",
    reason: /^unreadable: protobuf: cut short/,
    act: async (s) =>
      writeFileSync(join(s.child, ".jj/working_copy/tree_state"), Buffer.from([0x12, 0x7f, 0x0a])),
  },
  {
    name: "tree state missing",
    reason: /^unreadable: the workspace has no record/,
    act: async (s) => rmSync(join(s.child, ".jj/working_copy/tree_state")),
  },
  {
    name: "git store moved away",
    reason: /^unreadable: the repository's git store is missing/,
    act: async (s) => renameSync(join(s.root, ".jj/repo/store/git"), join(s.dir, "git")),
  },
  {
    name: "pinned operation older than a change of @",
    reason: /^busy: the workspace has another @ since/,
    async act(s) {
      const op = await s.head();
      await s.jj(["new", "--quiet", "-m", "next"], s.child);
      return { op };
    },
  },
];

/** Commits something in the child and abandons that operation from outside; the files stay as they are. */
async function abandonCheckoutOperation(s: Scene): Promise<void> {
  await s.jj(["new", "--quiet", "-m", "next"], s.child);
  const op = await s.head();
  await s.jj(["describe", "--quiet", "-m", "parent again"]);
  await s.jj(["op", "abandon", "--quiet", op]);
}

async function mktree(s: Scene, store: string, entry: string): Promise<string> {
  const child = Bun.spawn(["git", "--git-dir", store, "mktree", "--missing"], {
    env: s.env,
    stdin: Buffer.from(entry),
    stdout: "pipe",
  });
  return (await child.stdout.text()).trim();
}

describe("probe, unprovable", () => {
  for (const { name, reason, act } of UNKNOWN) {
    test.concurrent(
      `probe: ${name} → Unknown, nothing written`,
      async () => {
        const s = await scene();
        const options = (await act(s)) ?? {};
        const before = treeOf(s.dir);
        const answer = await probe(s, options);
        expect(treeChanges(before, treeOf(s.dir))).toEqual([]);
        expect(answer).toMatchObject({ state: "Unknown", changed: [] });
        expect(answer.reason).toMatch(reason);
      },
      TIMEOUT_MS,
    );
  }

  test.concurrent(
    "probe: pinned operation older, @ unchanged since → answers",
    async () => {
      const s = await scene();
      const op = await s.head();
      await s.jj(["bookmark", "create", "--quiet", "elsewhere", "-r", "root()"]);
      expect(await probe(s, { op })).toMatchObject({ state: "FreshClean" });
    },
    TIMEOUT_MS,
  );
});

describe("probe, drift", () => {
  test.concurrent(
    "probe: a jj command holds the workspace, then lets go → answers after it",
    async () => {
      const s = await scene();
      const lock = await holdLock(join(s.child, ".jj/working_copy/working_copy.lock"));
      let pauses = 0;
      const clock = {
        ...realClock,
        sleep: () => {
          pauses += 1;
          return lock.release();
        },
      };
      expect(await probe(s, { clock })).toMatchObject({ state: "FreshClean" });
      expect(pauses).toBe(1);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "probe: a jj command holds the workspace all the time → Unknown, busy",
    async () => {
      const s = await scene();
      const lock = await holdLock(join(s.child, ".jj/working_copy/working_copy.lock"));
      const answer = await probe(s);
      await lock.release();
      expect(answer).toMatchObject({ state: "Unknown" });
      expect(answer.reason).toMatch(/^busy: /);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "probe: lock file left by a killed jj → ignored",
    async () => {
      const s = await scene();
      writeFileSync(join(s.child, ".jj/working_copy/working_copy.lock"), "");
      expect(await probe(s)).toMatchObject({
        state: process.platform === "linux" ? "FreshClean" : "Unknown",
      });
    },
    TIMEOUT_MS,
  );

  /** A `jj` first on PATH that does `meanwhile` in the child workspace whenever the probe starts one. */
  function meddle(s: Scene, meanwhile: string): Record<string, string> {
    const bin = join(s.dir, "bin");
    mkdirSync(bin);
    const real = Bun.which("jj", { PATH: s.env["PATH"]! })!;
    writeFileSync(
      join(bin, "jj"),
      `#!/bin/sh\n( cd '${s.child}' && ${meanwhile} ) >/dev/null 2>&1\nexec '${real}' "$@"\n`,
      { mode: 0o755 },
    );
    return { ...s.env, PATH: `${bin}:${s.env["PATH"]!}`, REAL: real };
  }

  test.concurrent(
    "probe: the record of the files is renewed once meanwhile → looks again and answers",
    async () => {
      const s = await scene();
      // `jj st` notes the new time in tree_state, and makes no operation.
      const later = new Date(Date.now() + 5_000);
      utimesSync(join(s.child, "base.txt"), later, later);
      const before = readFileSync(join(s.child, ".jj/working_copy/tree_state"));
      const env = meddle(s, '"$REAL" st');
      expect(await probe(s, { env })).toMatchObject({ state: "FreshClean", changed: [] });
      expect(readFileSync(join(s.child, ".jj/working_copy/tree_state"))).not.toEqual(before);
    },
    TIMEOUT_MS,
  );

  test.concurrent(
    "probe: the agent commits again and again meanwhile → Unknown, busy",
    async () => {
      const s = await scene();
      const env = meddle(s, '"$REAL" new');
      const answer = await probe(s, { env });
      expect(answer.state).toBe("Unknown");
      expect(answer.reason).toMatch(/^busy: /);
    },
    TIMEOUT_MS,
  );
});

describe("probe, fingerprint", () => {
  test.concurrent(
    "fingerprint: looked at twice → the same; any further edit → another",
    async () => {
      const s = await scene();
      const seen = [(await probe(s)).fingerprint];
      const note = async (): Promise<void> => void seen.push((await probe(s)).fingerprint);
      await note();
      s.write("new", "1", s.child);
      await note();
      s.write("new", "2", s.child);
      await note();
      s.write("base.txt", "edited\n", s.child);
      await note();
      s.write("base.txt", "edited differently\n", s.child);
      await note();
      await s.jj([
        "describe",
        "--quiet",
        "-m",
        "reworded",
        "-r",
        "child@",
        "--ignore-working-copy",
      ]);
      await note();
      expect(seen[1]).toBe(seen[0]!);
      expect(new Set(seen).size).toBe(seen.length - 1);
    },
    TIMEOUT_MS,
  );
});

test.concurrent(
  "view files: every workspace's @ and every parent → as jj lists them",
  async () => {
    const s = await scene();
    const jj = createJj({ env: s.env });
    const location = (await jj.locate(s.root))!;
    const repo = jj.open(location, join(s.dir, "neutral"));
    const [head] = await repo.heads();
    const { OpStore } = await import("../../../src/backends/jj/op-store.ts");
    const store = new OpStore(location.repoDir);
    for (const op of await repo.operations(head!, 50)) {
      const listed = await repo.workspaces(op.id);
      expect(store.operation(op.id)?.parents).toEqual(op.parents);
      expect(Object.fromEntries(store.view(op.id)!.workspaces)).toEqual(
        Object.fromEntries(listed.map((w) => [w.workspace, w.commitId])),
      );
    }
    expect(readdirSync(join(location.repoDir, "op_heads/heads"))).toEqual([head!]);
  },
  TIMEOUT_MS,
);

/** Where jj writes from a workspace, and that Codex's sandbox is told to let it; on real jj. */
import { mkdirSync, readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "bun:test";
import { parse } from "smol-toml";
import { CodexHarness } from "../../../src/backends/harness/codex/adapter.ts";
import { jjStores } from "../../../src/backends/harness/codex/stores.ts";
import type { KikiError } from "../../../src/core/errors.ts";
import { codexProgram } from "../../support/codex-program.ts";
import { makeRepo } from "../../support/jj-repo.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";

afterAll(removeTempDirs);

test("jj's stores: colocated → jj's, git's, and git's folder of the worktree; of the main workspace → the first two", async () => {
  const repo = await makeRepo({ colocated: true });
  const workspace = join(repo.dir, "ws");
  await repo.jj(["workspace", "add", "--quiet", workspace]);
  const root = realpathSync(repo.root);
  const two = [join(root, ".jj/repo"), join(root, ".git")];
  expect(jjStores(workspace)).toEqual([...two, join(root, ".git/worktrees/ws")]);
  expect(jjStores(repo.root)).toEqual(two);
});

test("jj's stores: not colocated → jj's alone, with git's inside; a git repository elsewhere → both; no workspace → none", async () => {
  const repo = await makeRepo({ colocated: false });
  const workspace = join(repo.dir, "ws");
  await repo.jj(["workspace", "add", "--quiet", workspace]);
  expect(jjStores(workspace)).toEqual([realpathSync(join(repo.root, ".jj/repo"))]);
  const bare = join(repo.dir, "bare.git");
  await repo.git(["init", "--quiet", "--bare", bare], repo.dir);
  const other = join(repo.dir, "other");
  await repo.jj(["git", "init", "--quiet", "--git-repo", bare, other], repo.dir);
  expect(jjStores(other)).toEqual([join(other, ".jj/repo"), bare].map((p) => realpathSync(p)));
  expect(jjStores(repo.dir)).toEqual([]);
});

test("launch in a workspace → the sandbox may write its stores, after what the person named; pinned", async () => {
  const repo = await makeRepo({ colocated: true });
  const workspace = join(repo.dir, "ws");
  await repo.jj(["workspace", "add", "--quiet", workspace]);
  const dir = realpathSync(tempDir("codex-stores"));
  mkdirSync(join(dir, "home"));
  const harness = new CodexHarness({ managedFolder: join(dir, "managed") });
  const spec = await harness.prepare({
    repoId: "repo-1",
    threadId: "thread-1",
    threadName: "tests",
    incarnation: "incarnation-1",
    incarnationSecret: "s",
    sessionId: null,
    resume: false,
    workspaceRoot: workspace,
    folder: join(dir, "harness"),
    executable: codexProgram(join(dir, "codex"), "codex-cli 0.171.0"),
    prompt: null,
    extraArgs: ["-c", 'sandbox_workspace_write.writable_roots=["/cache"]'],
    env: { HOME: join(dir, "home"), PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
    briefing: null,
    hook: {
      executable: "/opt/kk-hook",
      socket: "/s/kkd.sock",
      credentialFile: "/s/credential",
      errorLog: "/s/errors.log",
      passedFolder: "/s/passed",
      spoolFolder: "/s/spool",
      barrierFile: "/s/barrier",
      kk: "/opt/kk",
      stateDir: join(dir, "state"),
    },
  });
  const roots = ["/cache", ...jjStores(workspace)];
  expect(roots).toHaveLength(4);
  const written = spec.argv.findLast((word) => word.startsWith("sandbox_workspace_write"));
  expect(parse(`v = ${written!.split("=").slice(1).join("=")}`)["v"]).toEqual(roots);
  const config = readFileSync(join(dir, "harness/codex-home/config.toml"), "utf8");
  expect(parse(config)["sandbox_workspace_write"]).toEqual({ writable_roots: roots });
});

test.each([
  ["sandbox_workspace_write={ network_access = true }", "replace what kiki sets"],
  ["sandbox_workspace_write.writable_roots=/cache", "no list of folders"],
])("argument -c %s → refused: %s", (setting, why) => {
  let refused = "taken";
  try {
    new CodexHarness().checkArguments(["-c", setting]);
  } catch (error) {
    refused = (error as KikiError).message;
  }
  expect(refused).toContain(why);
});

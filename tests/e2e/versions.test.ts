/** A daemon of another version: an older one is replaced gracefully, a newer one is talked to. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { isAlive } from "../../src/cmd/alive.ts";
import { initialised, type World } from "../support/world.ts";
import { waitFor } from "../support/wait.ts";

setDefaultTimeout(60_000);
const worlds: World[] = [];
afterAll(async () => {
  for (const w of worlds) await w.close();
});

interface Status {
  version: string;
  pid: number;
}

/** A world whose daemon calls itself `version`: the same sources, with another version compiled in. */
async function withDaemon(version: string): Promise<{ w: World; pid: number }> {
  const w = await initialised();
  worlds.push(w);
  await w.kk(["daemon", "stop"]);
  const child = Bun.spawn(
    [
      process.execPath,
      "--define",
      `KIKI_VERSION="${version}"`,
      "--define",
      'KIKI_BUILD="0123456789ab"',
      join(import.meta.dir, "../../src/main.ts"),
    ],
    {
      env: { ...w.env, KIKI_AS: "kkd" },
      cwd: w.stateDir,
      stdio: ["ignore", "ignore", "inherit"],
    },
  );
  const pidFile = join(w.stateDir, "kkd.pid");
  await waitFor(
    () => existsSync(pidFile) && readFileSync(pidFile, "utf8").trim() === String(child.pid),
    10_000,
    `a daemon ${version}`,
  );
  return { w, pid: child.pid };
}

test("older daemon → replaced by the next command, said in one line, the command answered", async () => {
  const { w, pid } = await withDaemon("0.0.9");
  const ls = await w.kk(["ls", "--json"]);
  expect(ls.code).toBe(0);
  expect(JSON.parse(ls.stdout)).toEqual({ threads: [] });
  expect(ls.stderr.trimEnd().split("\n")).toHaveLength(1);
  expect(ls.stderr).toMatch(/^kiki: daemon 0\.0\.9.* replaced by 0\.1\.0/);
  expect(isAlive(pid)).toBe(false);
  const status = await w.kkJson<Status>(["daemon", "status"]);
  expect(status.version).toBe("0.1.0");
  expect((await w.kk(["ls"])).stderr).toBe("");
});

test("newer daemon → kept and talked to", async () => {
  const { w, pid } = await withDaemon("9.0.0");
  const ls = await w.kk(["ls", "--json"]);
  expect(ls.code).toBe(0);
  expect(JSON.parse(ls.stdout)).toEqual({ threads: [] });
  expect(await w.kkJson<Status>(["daemon", "status"])).toMatchObject({ version: "9.0.0", pid });
});

test("kk daemon restart → another process, same state; logs show both", async () => {
  const w = await initialised();
  worlds.push(w);
  const before = await w.kkJson<Status>(["daemon", "status"]);
  expect((await w.kk(["daemon", "restart"])).code).toBe(0);
  const after = await w.kkJson<Status>(["daemon", "status"]);
  expect(after.pid).not.toBe(before.pid);
  expect(isAlive(before.pid)).toBe(false);
  expect((await w.kkJson<{ repos: unknown[] }>(["repo", "ls"])).repos).toHaveLength(1);
  const logs = (await w.kk(["daemon", "logs"])).stdout;
  for (const { pid } of [before, after]) expect(logs).toContain(` ${pid} `);
});

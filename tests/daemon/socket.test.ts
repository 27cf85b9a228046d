import { afterAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { KikiError } from "../../src/core/errors.ts";
import { bindPrivately, prepareSocket } from "../../src/daemon/socket.ts";
import { ensurePrivateFolder } from "../../src/rpc/private-folder.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

afterAll(removeTempDirs);

const uid = process.getuid?.() ?? 0;

function request(stateDir: string, extra: { runtimeDir?: string; recorded?: string } = {}) {
  return { stateDir, uid, runtimeDir: extra.runtimeDir, recorded: extra.recorded ?? "" };
}

function thrown(body: () => unknown): KikiError {
  try {
    body();
  } catch (error) {
    if (error instanceof KikiError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

function mode(path: string): number {
  return statSync(path).mode & 0o777;
}

/** A state folder whose own socket path is too long to bind. */
function longStateDir(): { stateDir: string; runtimeDir: string } {
  const dir = tempDir("s");
  const stateDir = join(dir, "x".repeat(120));
  mkdirSync(stateDir);
  return { stateDir, runtimeDir: dir };
}

describe("socket", () => {
  test("bound through bindPrivately → 0600 in a 0700 folder, umask as before", async () => {
    const stateDir = tempDir("socket");
    chmodSync(stateDir, 0o755);
    const before = process.umask();
    const path = prepareSocket(request(stateDir));
    expect(path).toBe(join(stateDir, "kkd.sock"));
    const server = bindPrivately(() => Bun.serve({ unix: path, fetch: () => new Response("x") }));
    expect([mode(path), mode(stateDir)]).toEqual([0o600, 0o700]);
    expect(process.umask()).toBe(before);
    await server.stop(true);
  });

  test("stale socket of a daemon that was killed → removed, then bindable", async () => {
    const stateDir = tempDir("socket");
    const path = join(stateDir, "kkd.sock");
    const source = `Bun.serve({ unix: ${JSON.stringify(path)}, fetch: () => new Response("") });
      process.kill(process.pid, "SIGKILL");`;
    Bun.spawnSync([process.execPath, "-e", source]);
    expect(existsSync(path)).toBe(true);
    expect(prepareSocket(request(stateDir))).toBe(path);
    expect(existsSync(path)).toBe(false);
    await Bun.serve({ unix: path, fetch: () => new Response("") }).stop(true);
  });

  test("a folder, file or link in its place → socket-blocked naming it, nothing removed", () => {
    const cases: [string, (path: string) => void][] = [
      ["a folder", (path) => mkdirSync(path)],
      ["a file of another kind", (path) => writeFileSync(path, "mine")],
      ["a symbolic link", (path) => symlinkSync("/nonexistent", path)],
    ];
    for (const [what, make] of cases) {
      const stateDir = tempDir("socket");
      const path = join(stateDir, "kkd.sock");
      make(path);
      const error = thrown(() => prepareSocket(request(stateDir)));
      expect(error.code).toBe("socket-blocked");
      expect(error.message).toBe(`${path} is ${what}, where kiki's socket has to be`);
      expect(readdirSync(stateDir)).toEqual(["kkd.sock"]);
    }
  });

  test("state folder too deep → short path in the runtime folder, which is made 0700", () => {
    const { stateDir, runtimeDir } = longStateDir();
    const path = prepareSocket(request(stateDir, { runtimeDir }));
    expect(path).toMatch(/\/kiki\/[0-9a-f]{16}\.sock$/);
    expect(dirname(path)).toBe(join(runtimeDir, "kiki"));
    expect(mode(dirname(path))).toBe(0o700);
  });

  test("state folder too deep, recorded path of the daemon before → kept while its folder is there", () => {
    const { stateDir, runtimeDir } = longStateDir();
    const first = prepareSocket(request(stateDir, { runtimeDir }));
    const other = tempDir("r");
    expect(prepareSocket(request(stateDir, { runtimeDir: other, recorded: first }))).toBe(first);
    const gone = first.replace("/kiki/", "/gone/");
    const moved = prepareSocket(request(stateDir, { runtimeDir: other, recorded: gone }));
    expect(dirname(moved)).toBe(join(other, "kiki"));
    // A record that was never ours does not lead us anywhere.
    const foreign = join(runtimeDir, "kiki", "else.sock");
    expect(prepareSocket(request(stateDir, { runtimeDir: other, recorded: foreign }))).toBe(moved);
  });

  test("shared folder that is a link, or somebody else's → folder-unsafe", () => {
    const { stateDir, runtimeDir } = longStateDir();
    mkdirSync(join(runtimeDir, "elsewhere"));
    symlinkSync(join(runtimeDir, "elsewhere"), join(runtimeDir, "kiki"));
    const error = thrown(() => prepareSocket(request(stateDir, { runtimeDir })));
    expect(error.code).toBe("folder-unsafe");
    expect(error.message).toContain(join(runtimeDir, "kiki"));
  });

  test.if(uid === 0)("folder that belongs to another user → folder-unsafe", () => {
    const folder = join(tempDir("f"), "theirs");
    mkdirSync(folder);
    chownSync(folder, 12345, 12345);
    expect(thrown(() => ensurePrivateFolder(folder)).message).toContain("belongs to user 12345");
  });

  test("private folder: missing parents, a file in its place → made, refused", () => {
    const dir = tempDir("f");
    ensurePrivateFolder(join(dir, "a", "b"));
    expect(mode(join(dir, "a", "b"))).toBe(0o700);
    writeFileSync(join(dir, "file"), "");
    expect(thrown(() => ensurePrivateFolder(join(dir, "file"))).code).toBe("folder-unsafe");
  });
});

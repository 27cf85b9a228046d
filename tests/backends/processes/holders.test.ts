/** Who keeps a folder in use, on real processes outside any thread. */
import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { copyFileSync, chmodSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { linuxProcesses } from "../../../src/backends/processes/linux.ts";
import {
  aliasesOf,
  parseMounts,
  unescapePath,
} from "../../../src/backends/processes/linux-mounts.ts";
import { quiescence } from "../../../src/lifecycle/freeze-proof.ts";
import { removeTempDirs } from "../../support/temp.ts";
import { waitFor } from "../../support/wait.ts";
import { Box } from "./rig.ts";

const LINUX = process.platform === "linux";
/** Mount namespaces and chroot are root's, or a user namespace's where those are allowed. */
const ROOT = LINUX && process.getuid?.() === 0;
let box: Box;
beforeEach(() => {
  if (LINUX) box = new Box();
});
afterEach(async () => {
  if (LINUX) await box.end();
});
afterAll(removeTempDirs);

/** Holds of the process `pid`, as kind and path below the box; waits until it has some. */
async function holdsOf(pid: number, folder = box.workspace): Promise<string[]> {
  return waitFor(
    async () => {
      const { holders } = await linuxProcesses.holders(folder);
      const found = holders.find((holder) => holder.pid === pid);
      return found?.holds.map((hold) => `${hold.kind} ${hold.path.replace(box.dir, "")}`);
    },
    5000,
    `process ${pid} to hold ${folder}`,
  );
}

describe.skipIf(!LINUX)("holders on Linux", () => {
  test("working directory, open file, mapped program, deleted file → each found with its reason", async () => {
    const file = join(box.workspace, "file");
    writeFileSync(file, "x");
    const cwd = box.stranger(["sleep", "600"], { cwd: box.workspace });
    const open = box.stranger(["sh", "-c", `exec 5<'${file}'; exec sleep 600`]);
    const program = join(box.workspace, "program");
    copyFileSync(Bun.which("sleep")!, program);
    chmodSync(program, 0o755);
    const mapped = box.stranger([program, "600"]);
    expect(await holdsOf(cwd.pid)).toEqual(["cwd /workspace"]);
    expect(await holdsOf(open.pid)).toEqual(["descriptor /workspace/file"]);
    expect(await holdsOf(mapped.pid)).toEqual(["map /workspace/program"]);
    rmSync(file);
    expect(await holdsOf(open.pid)).toEqual(["descriptor /workspace/file (deleted)"]);
  });

  test("folder asked for through a symbolic link → its holders; neighbours of similar name → not", async () => {
    symlinkSync(box.workspace, join(box.dir, "link"));
    mkdirSync(join(box.dir, "workspace-2"));
    const inside = box.stranger(["sleep", "600"], { cwd: box.workspace });
    const beside = box.stranger(["sleep", "600"], { cwd: join(box.dir, "workspace-2") });
    expect(await holdsOf(inside.pid, join(box.dir, "link"))).toEqual(["cwd /workspace"]);
    const { holders } = await linuxProcesses.holders(join(box.dir, "link"));
    expect(holders.map((holder) => holder.pid)).not.toContain(beside.pid);
  });

  test("quiescence: nobody → quiescent; a stranger → held by it; the stranger answered for → quiescent", async () => {
    expect(await quiescence(box.deps, box.workspace, [])).toEqual({ outcome: "quiescent" });
    const stranger = box.stranger(["sleep", "600"], { cwd: box.workspace });
    await holdsOf(stranger.pid);
    const found = await quiescence(box.deps, box.workspace, []);
    expect(found).toMatchObject({ outcome: "held-by", holders: [{ pid: stranger.pid }] });
    const within = [linuxProcesses.identify(stranger.pid)!];
    expect(await quiescence(box.deps, box.workspace, within)).toEqual({
      outcome: "quiescent",
    });
  });

  test.skipIf(!ROOT)("root changed to the folder → found as root", async () => {
    const program = `chroot $ARGV[0] or die; sleep 600`;
    const changed = box.stranger(["perl", "-e", program, box.workspace]);
    expect(await holdsOf(changed.pid)).toEqual(["root /workspace"]);
  });

  test.skipIf(!ROOT)(
    "bind mount in another mount namespace, of the folder or a part of it → found",
    async () => {
      mkdirSync(join(box.workspace, "part"));
      writeFileSync(join(box.workspace, "part", "file"), "");
      for (const [what, expected] of [
        ["", "descriptor /elsewhere/part/file"],
        ["part", "descriptor /elsewhere/file"],
      ] as const) {
        const elsewhere = join(box.dir, "elsewhere");
        mkdirSync(elsewhere, { recursive: true });
        const from = join(box.workspace, what);
        const file = what === "" ? "part/file" : "file";
        const script = `mount --bind '${from}' '${elsewhere}' && exec 5<'${elsewhere}/${file}'; exec sleep 600`;
        const child = box.stranger(["unshare", "-m", "sh", "-c", script]);
        expect(await holdsOf(child.pid)).toEqual([expected]);
      }
    },
  );

  test("mounts: escapes, subvolumes, parts of a folder mounted elsewhere → the names of the folder there", () => {
    const own = parseMounts(
      "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:2 /@home /home rw - btrfs /dev/b rw\n3 1 0:9 / /home/a\\040b rw - tmpfs t rw\n",
    );
    const there = parseMounts(
      "7 0 8:2 /@home/me /mnt/me rw - btrfs /dev/b rw\n8 0 8:2 /@home/me/ws/sub /sub rw - btrfs /dev/b rw\n9 0 8:1 / / rw - ext4 x rw\n",
    );
    expect(unescapePath("/a\\040b\\134c")).toBe("/a b\\c");
    expect(aliasesOf("/home/me/ws", own, there, "").toSorted()).toEqual(["/mnt/me/ws", "/sub"]);
    expect(aliasesOf("/home/me/ws", own, there, "/jail").toSorted()).toEqual([
      "/jail/mnt/me/ws",
      "/jail/sub",
    ]);
    expect(aliasesOf("/srv/ws", own, there, "")).toEqual(["/srv/ws"]);
    expect(aliasesOf("/home/a b/ws", own, there, "")).toEqual([]);
  });
});

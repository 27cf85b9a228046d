import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findSocket, parseRecord, readRecord } from "../../src/rpc/find-socket.ts";
import { socketPath } from "../../src/rpc/socket-path.ts";
import { MAX_SOCKET_PATH_BYTES } from "../../src/rpc/contract/wire.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

afterAll(removeTempDirs);

describe("socket path", () => {
  const long = `/home/${"x".repeat(200)}/.config/kiki`;

  test("state folder: short, exactly at the limit, one byte over, in bytes → inside, inside, outside", () => {
    expect(socketPath("/home/a/.config/kiki", "/run/user/1", 1)).toBe(
      "/home/a/.config/kiki/kkd.sock",
    );
    const fits = `/${"a".repeat(MAX_SOCKET_PATH_BYTES - "/".length - "/kkd.sock".length)}`;
    expect(socketPath(fits, undefined, 1)).toBe(`${fits}/kkd.sock`);
    expect(socketPath(`${fits}a`, undefined, 1)).toStartWith("/tmp/kiki-1/");
    expect(socketPath(`/${"é".repeat(50)}`, undefined, 1)).toStartWith("/tmp/kiki-1/");
  });

  test("too long: runtime folder usable, missing, relative, too long → that, else /tmp", () => {
    expect(socketPath(long, "/run/user/7", 7)).toMatch(
      /^\/run\/user\/7\/kiki\/[0-9a-f]{16}\.sock$/,
    );
    for (const runtime of [undefined, "", "run", `/${"r".repeat(99)}`]) {
      expect(socketPath(long, runtime, 7)).toMatch(/^\/tmp\/kiki-7\/[0-9a-f]{16}\.sock$/);
    }
  });

  test("too long: two state folders → two sockets, each always the same", () => {
    expect(socketPath(long, undefined, 1)).toBe(socketPath(long, undefined, 1));
    expect(socketPath(`${long}2`, undefined, 1)).not.toBe(socketPath(long, undefined, 1));
  });

  test("find: no record, own record, foreign record → computed, recorded, computed", () => {
    const dir = join(tempDir("find"), "y".repeat(150));
    mkdirSync(dir);
    const computed = findSocket(dir, "/run/user/1");
    expect(computed).toStartWith("/run/user/1/kiki/");
    const recorded = computed.replace("/run/user/1/", "/run/user/2/");
    writeFileSync(join(dir, "kkd.lock"), `123\n${recorded}\n`);
    expect(readRecord(dir)).toEqual({ pid: 123, socket: recorded });
    expect(findSocket(dir, "/run/user/1")).toBe(recorded);
    writeFileSync(join(dir, "kkd.lock"), "123\n/run/user/2/kiki/other.sock\n");
    expect(findSocket(dir, "/run/user/1")).toBe(computed);
  });

  test("find: the same folder by a link or with a slash → one socket", () => {
    const dir = tempDir("find");
    const real = join(dir, "z".repeat(150));
    mkdirSync(real);
    symlinkSync(real, join(dir, "link"));
    const socket = findSocket(real, "/run/user/1");
    expect(findSocket(join(dir, "link"), "/run/user/1")).toBe(socket);
    expect(findSocket(`${real}/`, "/run/user/1")).toBe(socket);
    expect(findSocket(`${dir}/`, undefined)).toBe(join(dir, "kkd.sock"));
  });

  test("record: torn, empty, nonsense → null", () => {
    for (const text of ["", "\n", "x\n/s\n", "-1\n/s\n", "0\n/s\n"]) {
      expect([text, parseRecord(text)]).toEqual([text, null]);
    }
    expect(parseRecord("12")).toEqual({ pid: 12, socket: "" });
  });
});

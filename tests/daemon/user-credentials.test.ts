import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { chmodSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { hashSecret } from "../../src/authority/identify.ts";
import * as disk from "../../src/backends/files.ts";
import { fileStamp, removeTree } from "../../src/backends/folders.ts";
import { ensureUserCredential } from "../../src/daemon/user-credentials.ts";
import { liveUserCredentials } from "../../src/store/credentials.ts";
import type { Db } from "../../src/store/db.ts";
import { openUserDb } from "../../src/store/open.ts";
import { FakeClock } from "../fakes/clock.ts";
import { FakeIds } from "../fakes/ids.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

const ids = new FakeIds();
const warnings: string[] = [];
const log = {
  info: () => undefined,
  warn: (text: string) => void warnings.push(text),
  error: () => undefined,
};
const open: Db[] = [];
let userDb: Db;
let file: string;
const files = { ...disk, removeTree, fileStamp };

beforeEach(() => {
  const dir = tempDir("registration");
  userDb = openUserDb(join(dir, "state.db"));
  open.push(userDb);
  file = join(dir, "registration-cred");
  warnings.length = 0;
});
afterAll(() => {
  for (const db of open) db.close();
  removeTempDirs();
});

function ensure(): string {
  ensureUserCredential(
    { userDb, files, ids, clock: new FakeClock(), log },
    "RegistrationScoped",
    file,
  );
  return readFileSync(file, "utf8");
}

function agree(): boolean {
  const live = liveUserCredentials(userDb).filter((row) => row.kind === "RegistrationScoped");
  return (
    live.length === 1 && live[0]?.secretSha256 === hashSecret(readFileSync(file, "utf8").trim())
  );
}

describe("registration credential", () => {
  test("first start → 64 hex digits, 0600, only the hash in the database", () => {
    const text = ensure();
    expect(text).toMatch(/^[0-9a-f]{64}\n$/);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(agree()).toBe(true);
    expect(JSON.stringify(liveUserCredentials(userDb))).not.toContain(text.trim());
  });

  test("next start → the same secret, mode narrowed again", () => {
    const first = ensure();
    chmodSync(file, 0o644);
    expect(ensure()).toBe(first);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(warnings).toEqual([]);
  });

  const damage: [string, () => void][] = [
    ["file missing", () => rmSync(file)],
    ["file empty", () => writeFileSync(file, "")],
    ["file of another state folder", () => writeFileSync(file, `${"a".repeat(64)}\n`)],
  ];
  for (const [name, break_] of damage) {
    test(`${name} → new secret, the old one revoked, one warning`, () => {
      const first = ensure();
      break_();
      expect(ensure()).not.toBe(first);
      expect(agree()).toBe(true);
      expect(warnings).toHaveLength(1);
    });
  }

  test("database restored without the row → new secret that both know", () => {
    writeFileSync(file, `${"b".repeat(64)}\n`);
    expect(ensure()).not.toContain("bbbb");
    expect(agree()).toBe(true);
  });
});

/** Several processes at one database, and processes that die: bounded waits, whole transactions, no damage. */
import { Database } from "bun:sqlite";
import { afterAll, describe, expect, test } from "bun:test";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { KikiError } from "../../src/core/errors.ts";
import { BUSY_TIMEOUT_MS, write } from "../../src/store/db.ts";
import {
  migrate,
  REPO_MIGRATIONS,
  schemaVersion,
  USER_MIGRATIONS,
} from "../../src/store/migrate.ts";
import { openRepoDb, openUserDb } from "../../src/store/open.ts";
import { randomOf } from "../support/random.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { rowsOf, schemaOf, writeRecorded } from "./world/recorded.ts";
import { KINDS, type Kind } from "./world/world.ts";

afterAll(removeTempDirs);

const STANDIN = join(import.meta.dir, "../support/store-standin.ts");
const MIGRATIONS = { user: USER_MIGRATIONS, repo: REPO_MIGRATIONS };
const NEWEST = { user: USER_MIGRATIONS.length, repo: REPO_MIGRATIONS.length };
const OPEN = { user: openUserDb, repo: openRepoDb };

interface Ended {
  signal: unknown;
  exit: number | null;
  out: string;
}

async function standin(...args: string[]): Promise<Ended> {
  const child = Bun.spawn([process.execPath, STANDIN, ...args], { stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  await child.exited;
  return { signal: child.signalCode, exit: child.exitCode, out: out.trim() + err };
}

/** Another process with the write lock, until `release`. */
async function holdWriteLock(file: string): Promise<{ release(): Promise<void> }> {
  const child = Bun.spawn([process.execPath, STANDIN, "hold", file], {
    stdin: "pipe",
    stdout: "pipe",
  });
  const reader = child.stdout.getReader();
  expect(new TextDecoder().decode((await reader.read()).value)).toBe("held\n");
  reader.releaseLock();
  return {
    async release() {
      void child.stdin.end();
      expect(await child.exited).toBe(0);
    },
  };
}

function codeOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    return error instanceof KikiError ? error.code : String(error);
  }
  return "no error";
}

describe("one writer", () => {
  test("lock: another process writes → waited for within the limit, then database-busy; free again → written", async () => {
    const file = join(tempDir("store"), "state.db");
    const db = openUserDb(file);
    expect(db.query("PRAGMA busy_timeout").get()).toEqual({ timeout: BUSY_TIMEOUT_MS });
    db.run("PRAGMA busy_timeout = 150");
    const lock = await holdWriteLock(file);
    const put = (): void =>
      write(db, () => db.run("INSERT INTO daemon_meta VALUES ('a', 'b')") as unknown as void);
    const began = performance.now();
    expect(codeOf(put)).toBe("database-busy");
    expect(performance.now() - began).toBeGreaterThanOrEqual(140);
    // Reading goes on all the while.
    expect(db.query("SELECT count(*) AS n FROM daemon_meta").get()).toEqual({ n: 0 });
    await lock.release();
    put();
    expect(db.query("SELECT count(*) AS n FROM daemon_meta").get()).toEqual({ n: 1 });
    db.close();
  });

  test("lock: another process writes while this one migrates → database-busy, old schema, keys enforced again", async () => {
    const file = join(tempDir("store"), "state.db");
    writeRecorded("repo", 1, file);
    const lock = await holdWriteLock(file);
    const db = new Database(file);
    db.run("PRAGMA busy_timeout = 50");
    expect(codeOf(() => migrate(db, REPO_MIGRATIONS, file))).toBe("database-busy");
    expect(schemaVersion(db)).toBe(1);
    expect(db.query("PRAGMA foreign_keys").get()).toEqual({ foreign_keys: 1 });
    await lock.release();
    migrate(db, REPO_MIGRATIONS, file);
    expect(schemaVersion(db)).toBe(NEWEST.repo);
    db.close();
  });

  for (const kind of KINDS) {
    for (const from of ["nothing", "schema 1"]) {
      test(`two processes open the ${kind} database at once, from ${from} → both at the newest schema`, async () => {
        const file = join(tempDir("store"), "state.db");
        if (from !== "nothing") writeRecorded(kind, 1, file);
        const ended = await Promise.all([standin("open", kind, file), standin("open", kind, file)]);
        for (const e of ended) expect(e).toMatchObject({ signal: null, exit: 0 });
        const db = OPEN[kind](file);
        expect(schemaVersion(db)).toBe(NEWEST[kind]);
        expect(db.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
        db.close();
      });
    }
  }
});

/** `at` sorted, without doubles, and with the ends: the first statements, and the last ones around the commit. */
function moments(total: number, few: number, pick: (below: number) => number): number[] {
  const chosen = Array.from({ length: few }, () => 1 + pick(total));
  return [...new Set([1, 2, ...chosen, total - 2, total - 1, total])].sort((a, b) => a - b);
}

function sound(db: Database): void {
  expect(db.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
  expect(db.query("PRAGMA foreign_key_check").all()).toEqual([]);
}

describe("killed", () => {
  const seed = Number(process.env["KIKI_TEST_SEED"] ?? Date.now() % 1_000_000);
  const random = randomOf(seed);

  for (const [kind, few] of [
    ["user", 3],
    ["repo", 7],
  ] as const satisfies [Kind, number][]) {
    test(`kill -9 between statements of the ${kind} migration (seed ${seed}) → old schema whole or new one whole, and the next start completes it`, async () => {
      const template = join(tempDir("store"), "state.db");
      writeRecorded(kind, 1, template);
      const old = new Database(template, { readonly: true });
      const before = [schemaOf(old), rowsOf(old)];
      old.close();
      const fresh = OPEN[kind](join(tempDir("store"), "state.db"));
      const newest = schemaOf(fresh);
      fresh.close();
      const fileOf = (): string => {
        const file = join(tempDir("store"), "state.db");
        copyFileSync(template, file);
        return file;
      };
      const total = Number((await standin("open", kind, fileOf())).out);
      expect(total).toBeGreaterThan(20);
      const ends = { old: 0, newest: 0 };
      for (const at of moments(total, few, (below) => random.below(below))) {
        const file = fileOf();
        expect((await standin("open", kind, file, String(at))).signal, `at ${at}`).toBe("SIGKILL");
        const left = new Database(file);
        sound(left);
        if (schemaVersion(left) === 1) {
          expect([schemaOf(left), rowsOf(left)], `at ${at}`).toEqual(before);
          ends.old += 1;
        } else {
          // Each migration is a transaction: between two of them the schema is a whole one as well.
          const whole = new Database(":memory:");
          migrate(whole, MIGRATIONS[kind].slice(0, schemaVersion(left)), ":memory:");
          expect(schemaOf(left), `at ${at}`).toEqual(schemaOf(whole));
          whole.close();
          ends.newest += 1;
        }
        left.close();
        const next = OPEN[kind](file);
        expect(schemaVersion(next)).toBe(NEWEST[kind]);
        expect(schemaOf(next)).toEqual(newest);
        sound(next);
        next.close();
      }
      // Both kinds of ends were seen, or the moments were not where they should be.
      expect(ends.old).toBeGreaterThan(0);
      expect(ends.newest).toBeGreaterThan(0);
    }, 180_000);
  }

  test("kill -9 between any two statements of a row of transactions → each whole or not there, in order", async () => {
    const template = join(tempDir("store"), "state.db");
    openRepoDb(template).close();
    const copy = (): string => {
      const file = join(tempDir("store"), "state.db");
      copyFileSync(template, file);
      return file;
    };
    const opening = Number((await standin("open", "repo", copy())).out);
    const total = Number((await standin("write", copy())).out);
    const reached = new Set<number>();
    for (let at = opening; at <= total; at += 1) {
      const file = copy();
      expect((await standin("write", file, String(at))).signal, `at ${at}`).toBe("SIGKILL");
      const db = openRepoDb(file);
      sound(db);
      const marks = db
        .query<{ kind: string; at: number }, []>("SELECT kind, at FROM events ORDER BY seq")
        .all()
        .map((e) => `${e.kind} ${e.at}`);
      const whole = marks.length / 2;
      const expected = Array.from({ length: whole }, (_, n) => [`begun ${n + 1}`, `done ${n + 1}`]);
      expect(marks, `at ${at}`).toEqual(expected.flat());
      // What the events say was written is there, and nothing of what comes after.
      expect(db.query("SELECT count(*) AS n FROM threads").get()).toEqual({
        n: whole >= 4 ? 2 : Math.min(whole, 1),
      });
      expect(db.query("SELECT count(*) AS n FROM sync_intents").get()).toEqual({
        n: whole >= 4 ? 1 : 0,
      });
      reached.add(whole);
      db.close();
    }
    expect([...reached]).toEqual([0, 1, 2, 3, 4, 5]);
  }, 180_000);
});

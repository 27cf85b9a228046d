/**
 * A process that opens a database as the daemon does, for tests that need two of them, or one that dies.
 *
 * open KIND FILE [N]  opens and migrates; with N, SIGKILLs itself before its Nth statement. Prints the count at its end.
 * write FILE [N]      the same, and then a row of transactions through the store's own functions.
 * hold FILE           takes the write lock, prints "held", and keeps it until its standard input ends.
 */
import { Database } from "bun:sqlite";
import { write, type Db } from "../../src/store/db.ts";
import { setHead, synchronize } from "../../src/store/edges.ts";
import { appendEvent } from "../../src/store/events.ts";
import { addTrigger, insertIntent } from "../../src/store/intents.ts";
import {
  completeStep,
  endOperation,
  insertOperation,
  setFailing,
  startStep,
} from "../../src/store/lifecycle-ops.ts";
import { openRepoDb, openUserDb } from "../../src/store/open.ts";
import { insertThread, setBase, setLink } from "../../src/store/threads.ts";

let count = 0;
let killAt = Number.POSITIVE_INFINITY;

function next(): void {
  count += 1;
  if (count >= killAt) process.kill(process.pid, "SIGKILL");
}

/** Single statements: a semicolon ends one, unless it stands in quotes or in the body of a trigger. */
function statements(sql: string): string[] {
  const found: string[] = [];
  let current = "";
  let quoted = false;
  for (const c of sql.replace(/--.*$/gm, "")) {
    current += c;
    if (c === "'") quoted = !quoted;
    if (c !== ";" || quoted) continue;
    if (/^\s*CREATE TRIGGER/i.test(current) && !/\bEND;$/.test(current)) continue;
    found.push(current.trim());
    current = "";
  }
  return current.trim() === "" ? found : [...found, current.trim()];
}

type AnyRun = (...values: unknown[]) => ReturnType<Database["run"]>;

/** From here on every statement that may write is counted, each by itself. */
function countStatements(): void {
  // Called with its own connection below.
  // oxlint-disable-next-line typescript/unbound-method
  const run = Database.prototype.run as AnyRun;
  const counted: AnyRun = function (this: Database, sql, ...bindings) {
    const all = bindings.length > 0 ? [sql] : statements(sql as string);
    let last: ReturnType<AnyRun> = { changes: 0, lastInsertRowid: 0 };
    for (const one of all) {
      next();
      last = run.call(this, one, ...bindings);
    }
    return last;
  };
  Database.prototype.run = counted as typeof Database.prototype.run;
  // A prepared statement's own `run` is put on each object, by its number of parameters. BEGIN and COMMIT are prepared.
  const seen = new WeakSet<object>();
  for (const make of ["prepare", "query"] as const) {
    const original = Database.prototype[make] as unknown as (...values: unknown[]) => {
      run: AnyRun;
    };
    Database.prototype[make] = function (this: Database, ...values: unknown[]) {
      const statement = original.apply(this, values);
      if (seen.has(statement)) return statement;
      seen.add(statement);
      const own = statement.run.bind(statement);
      statement.run = (...bindings) => {
        next();
        return own(...bindings);
      };
      return statement;
    } as unknown as (typeof Database.prototype)[typeof make] & typeof Database.prototype.query;
  }
}

/** Transaction `n`: its body between two events, so that half of one would show. */
function transaction(db: Db, n: number, body: () => void): void {
  const mark = (kind: string): void =>
    appendEvent(db, { threadId: null, kind, data: { n }, now: n });
  write(db, () => {
    mark("begun");
    body();
    mark("done");
  });
}

function writeMuch(db: Db): void {
  const thread = (id: string): void =>
    insertThread(db, {
      threadId: id,
      name: id,
      slug: id,
      harness: "claude-code",
      harnessExecutable: "/bin/claude",
      harnessArgs: [],
      firstPrompt: null,
      workspaceName: `kk-${id}`,
      workspacePath: `/ws/${id}`,
      bookmark: `kk/${id}`,
      tmuxSocket: null,
      tmuxSession: `kk-${id}`,
      createdAt: 1,
    });
  const at = { operationId: "op", ordinal: 1 };
  const head = { commit: "c".repeat(40), change: "k".repeat(32), op: "d".repeat(128) };
  transaction(db, 1, () => {
    thread("killed");
    insertOperation(db, {
      operationId: "op",
      threadId: "killed",
      kind: "Create",
      args: {},
      steps: [{ name: "one" }, { name: "two" }],
      now: 1,
    });
  });
  transaction(db, 2, () => {
    startStep(db, at, { token: "t" });
    setBase(db, "killed", "b".repeat(40));
  });
  transaction(db, 3, () => {
    completeStep(db, at, { made: true });
    setHead(db, "killed", head);
  });
  transaction(db, 4, () => {
    thread("child");
    setLink(db, { child: "child", parent: "killed", anchor: head.commit, now: 1 });
    insertIntent(db, {
      intentId: "i",
      threadId: "child",
      parentThreadId: "killed",
      kind: "NativeRewrite",
      fromBase: "a",
      toBase: "b",
      op: "o",
      now: 1,
    });
    addTrigger(db, { intentId: "i", op: "o", from: "a", to: "b" });
  });
  transaction(db, 5, () => {
    synchronize(db, "child", "killed", "b");
    setFailing(db, "op", "why");
    endOperation(db, "op", { state: "Failed", error: "why", now: 2 });
  });
}

const [mode, ...args] = process.argv.slice(2);
if (mode === "hold") {
  const db = new Database(args[0]!);
  db.run("BEGIN IMMEDIATE");
  process.stdout.write("held\n");
  for await (const _ of Bun.stdin.stream());
  db.run("ROLLBACK");
} else {
  const [kind, file, at] = mode === "open" ? args : ["repo", ...args];
  if (at !== undefined) killAt = Number(at);
  countStatements();
  const db = (kind === "user" ? openUserDb : openRepoDb)(file!);
  if (mode === "write") writeMuch(db);
  next();
  process.stdout.write(`${count}\n`);
}

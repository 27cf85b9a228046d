/**
 * The database of a simulated world. It outlives its daemons: each opens it anew and loses it when it dies. Most schedules
 * have it in memory, on one connection; some on a disk, with a connection of each daemon's own, as in production.
 */
import { Database } from "bun:sqlite";
import { copyFileSync, existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { connect, type Db } from "../../src/store/db.ts";
import { openRepoDb } from "../../src/store/open.ts";

export interface SimDatabase {
  /** For whoever looks from outside; stays open across daemons. */
  readonly outside: Db;
  /** Differs from the last look whenever something was committed. */
  version(): number;
  /** As a daemon opens it at its boot. */
  open(): Db;
  close(): void;
}

/** A database with the newest schema and nothing in it, to be copied: migrating takes longer than a whole schedule. */
function template(folder: string): string {
  const file = join(folder, "template.db");
  if (existsSync(file)) return file;
  const db = openRepoDb(file);
  // A database in memory has no write-ahead log, and one whose header asks for it cannot be opened there.
  db.run("PRAGMA journal_mode = DELETE");
  db.close();
  return file;
}

export function onDisk(folder: string, name: string): SimDatabase {
  const file = join(folder, `${name}.db`);
  copyFileSync(template(folder), file);
  const outside = connect(file);
  const version = outside.query<{ data_version: number }, []>("PRAGMA data_version");
  return {
    outside,
    version: () => version.get()!.data_version,
    open() {
      const db = openRepoDb(file);
      db.run("PRAGMA synchronous = OFF"); // a daemon dies here, never the machine
      return db;
    },
    close() {
      outside.close();
      for (const end of ["", "-wal", "-shm"]) rmSync(file + end, { force: true });
    },
  };
}

/** Bytes of the template, by its folder. */
const images = new Map<string, Uint8Array>();

export function inMemory(folder: string): SimDatabase {
  const image = images.get(folder) ?? readFileSync(template(folder));
  images.set(folder, image);
  const db = Database.deserialize(image, { strict: true });
  for (const pragma of ["synchronous = OFF", "foreign_keys = ON", "recursive_triggers = ON"])
    db.run(`PRAGMA ${pragma}`);
  const statements = new Map<string, ReturnType<Db["query"]>>();
  const outside = new Connection(db, statements) as unknown as Db;
  const version = db.query<{ n: number }, []>("SELECT total_changes() AS n");
  return {
    outside,
    version: () => version.get()!.n,
    open: () => new Connection(db, statements) as unknown as Db,
    close: () => db.close(),
  };
}

/** What the product uses of a connection, on one that others share. Closed, it answers nobody any more. */
class Connection {
  readonly filename = ":memory:";
  readonly #db: Database;
  readonly #statements: Map<string, ReturnType<Db["query"]>>;
  #closed = false;

  constructor(db: Database, statements: Map<string, ReturnType<Db["query"]>>) {
    this.#db = db;
    this.#statements = statements;
  }

  get inTransaction(): boolean {
    return this.#db.inTransaction;
  }

  query(sql: string): ReturnType<Db["query"]> {
    this.#mustBeOpen();
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const made = this.#db.prepare(sql) as ReturnType<Db["query"]>;
    this.#statements.set(sql, made);
    return made;
  }

  run(sql: string, ...values: never[]): unknown {
    this.#mustBeOpen();
    return this.#db.run(sql, ...values);
  }

  transaction(body: () => unknown): { immediate: () => unknown } {
    const made = this.#db.transaction(body);
    return {
      immediate: () => {
        this.#mustBeOpen();
        return made.immediate();
      },
    };
  }

  close(): void {
    this.#closed = true;
  }

  #mustBeOpen(): void {
    if (this.#closed) throw new RangeError("Cannot use a closed database");
  }
}

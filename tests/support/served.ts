/** A served daemon with a registered repository and threads in it, asked over its socket byte by byte as a test likes. */
import { Database } from "bun:sqlite";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  startDaemon,
  type BenchDaemon,
  type BenchThread,
} from "../../scripts/bench/hook-daemon.ts";
import { repoPaths, statePaths } from "../../src/core/paths.ts";
import { auditRows, type AuditEntry, type AuditSink } from "../../src/store/audit.ts";
import { tempDir } from "./temp.ts";

const MAIN = join(import.meta.dir, "../../src/main.ts");
const ALL = 1_000_000;

export interface Asked {
  method: string;
  /** Secret; null: no header at all. */
  credential?: string | null;
  /** Sent as it is when it is text, else as JSON. */
  body?: unknown;
  verb?: string;
}

export interface Answer {
  status: number;
  /** Code of the refusal; null for an answer. */
  code: string | null;
}

export interface Served extends BenchDaemon {
  /** Of the registered repository. */
  repoRoot: string;
  secrets: { registration: string; admin: string };
  ask(asked: Asked): Promise<Answer>;
  /** Every row there is, oldest first, as another process sees it. */
  rows(sink: AuditSink): AuditEntry[];
  /** Every file of the two databases. */
  databaseFiles(): string[];
}

/** `daemon.stop()` when done. */
export async function serveThreads(count: number): Promise<Served> {
  const root = tempDir("served");
  const kkd = join(root, "kkd");
  writeFileSync(kkd, `#!/bin/sh\nKIKI_AS=kkd exec "${process.execPath}" "${MAIN}"\n`);
  chmodSync(kkd, 0o700);
  const daemon = await startDaemon(root, kkd, count);
  const { stateDir, repoId } = daemon;
  const user = statePaths(stateDir);
  const files = { repo: repoPaths(stateDir, repoId).db, user: user.userDb };
  const secretIn = (file: string): string => readFileSync(file, "utf8").trim();
  return {
    ...daemon,
    repoRoot: join(root, "repo"),
    secrets: {
      registration: secretIn(user.registrationCredential),
      admin: secretIn(user.adminCredential),
    },
    ask: (asked) => ask(daemon.socket, asked),
    rows(sink) {
      const db = new Database(files[sink], { readonly: true, strict: true });
      try {
        return auditRows(db, sink, { limit: ALL }).rows;
      } finally {
        db.close();
      }
    },
    databaseFiles: () => [files.repo, `${files.repo}-wal`, files.user, `${files.user}-wal`],
  };
}

/** What a hook of this thread sends with its requests. */
export function hookOf({ incarnation, secret }: BenchThread): {
  incarnation: string;
  secret: string;
} {
  return { incarnation, secret };
}

async function ask(socket: string, asked: Asked): Promise<Answer> {
  const { method, credential = null, body = {}, verb = "POST" } = asked;
  const response = await fetch(`http://kiki/v1/${method}`, {
    unix: socket,
    method: verb,
    headers: credential === null ? {} : { authorization: `Kiki ${credential}` },
    ...(verb === "GET" ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const answer = (await response.json()) as { error?: { code: string } };
  return { status: response.status, code: answer.error?.code ?? null };
}

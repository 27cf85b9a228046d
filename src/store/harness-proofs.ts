/** `harness_proof_runs` and `harness_proofs`: what was proved about a version of a harness. Append-only (triggers). */
import type { Capability, Proof, ProofOutcome, ProofSource } from "../core/proofs.ts";
import { write, type Db } from "./db.ts";

/** What a list of proofs is about: an adapter and a harness, each in its exact version. */
export interface ProofSubject {
  harness: "claude-code" | "codex";
  adapterVersion: string;
  harnessVersion: string;
}

export interface ProofRun extends ProofSubject {
  source: ProofSource;
  /** Of quick proofs: the program that was run, and what its file was then. */
  executable: string | null;
  stamp: string | null;
  /** Milliseconds since the epoch. */
  provedAt: number;
  /** The program that says so, for example `kiki 0.1.0 (dev)`. */
  provedBy: string;
  proofs: readonly Proof[];
}

/** One transaction with all its proofs. */
export function insertProofRun(db: Db, run: ProofRun): void {
  const { proofs, ...row } = run;
  write(db, () => {
    const { lastInsertRowid } = db
      .query(
        `INSERT INTO harness_proof_runs (harness, adapter_version, harness_version, source, executable,
           executable_stamp, proved_at, proved_by)
         VALUES ($harness, $adapterVersion, $harnessVersion, $source, $executable, $stamp, $provedAt, $provedBy)`,
      )
      .run({ ...row });
    const insert = db.query(
      `INSERT INTO harness_proofs (run_id, ordinal, name, takes_json, outcome, reason)
       VALUES ($runId, $ordinal, $name, $takes, $outcome, $reason)`,
    );
    proofs.forEach(({ name, takes, outcome, reason }, ordinal) => {
      const runId = Number(lastInsertRowid);
      insert.run({ runId, ordinal, name, takes: JSON.stringify(takes), outcome, reason });
    });
  });
}

/** The newest run about exactly this; null when there is none. `executable`: null for the gate's. */
export function latestProofRun(
  db: Db,
  { harness, adapterVersion, harnessVersion }: ProofSubject,
  executable: string | null,
): ProofRun | null {
  const row = db
    .query<
      Omit<ProofRun, "proofs"> & { runId: number },
      {
        harness: string;
        adapterVersion: string;
        harnessVersion: string;
        executable: string | null;
      }
    >(
      `SELECT run_id AS runId, harness, adapter_version AS adapterVersion, harness_version AS harnessVersion, source,
         executable, executable_stamp AS stamp, proved_at AS provedAt, proved_by AS provedBy
       FROM harness_proof_runs
       WHERE harness = $harness AND adapter_version = $adapterVersion AND harness_version = $harnessVersion
         AND executable IS $executable
       ORDER BY run_id DESC LIMIT 1`,
    )
    .get({ harness, adapterVersion, harnessVersion, executable });
  if (row === null) return null;
  const { runId, ...run } = row;
  return { ...run, proofs: proofsOf(db, runId) };
}

function proofsOf(db: Db, runId: number): Proof[] {
  return db
    .query<
      { name: string; takes: string; outcome: ProofOutcome; reason: string },
      { runId: number }
    >(
      `SELECT name, takes_json AS takes, outcome, reason FROM harness_proofs
       WHERE run_id = $runId ORDER BY ordinal`,
    )
    .all({ runId })
    .map((p) => ({ ...p, takes: JSON.parse(p.takes) as Capability[] }));
}

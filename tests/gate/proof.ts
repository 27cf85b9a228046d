/**
 * A proof: one fact about one harness that kiki relies on, shown with the real binary. Every proof has an inversion: the
 * same run with its fixture turned round, in which the claim must come out refuted. A check that holds both ways checks
 * nothing.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Capabilities, HarnessName } from "../../src/ports/harness.ts";
import type { GateOptions } from "./options.ts";
import type { LoopbackProof } from "./namespace.ts";
import type { Report } from "./report.ts";

/** What a run showed. `seen`: in a few words, for whoever reads the table or has to find out why. */
export interface Evidence {
  holds: boolean;
  seen: string;
}

export interface ProofRun {
  /** An empty folder of this run's own, removed with the gate's. */
  folder: string;
  /** The fixture is turned round: `Proof.inversion` says what that is. */
  inverted: boolean;
  options: GateOptions;
}

export interface Proof {
  /** Lower case, words joined by dashes; unique for its harness. */
  id: string;
  harness: HarnessName;
  version: string;
  /** What is true when it is proved. */
  claim: string;
  /** What is different in the inverted run, and so makes the claim untrue. */
  inversion: string;
  /** What kiki may not do with a version that fails it; empty: a fact the adapter's own code relies on. */
  needed: readonly (keyof Capabilities)[];
  /** Throws only when the run itself went wrong: that proves nothing either way. */
  prove(run: ProofRun): Promise<Evidence>;
}

interface ProofRow {
  proof: Proof;
  /** `proved`: the claim held. `refuted`: it did not. `broken`: the run went wrong. */
  outcome: "proved" | "refuted" | "broken";
  seen: string;
  ms: number;
  /** The same for the inverted run, when it was asked for. */
  inverted: { outcome: "proved" | "refuted" | "broken"; seen: string; ms: number } | null;
}

type MakeFolder = (name: string) => string;

/** Runs every proof, `width` at a time; each is started only with the proof that nothing but loopback can be reached. */
async function runProofs(
  proofs: readonly Proof[],
  _loopback: LoopbackProof,
  how: { options: GateOptions; folder: MakeFolder; inverted: boolean; width: number },
): Promise<ProofRow[]> {
  const rows: ProofRow[] = [];
  const waiting = [...proofs.entries()];
  const worker = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [at, proof] = next;
      const straight = await once(proof, false, how);
      const inverted = how.inverted ? await once(proof, true, how) : null;
      rows[at] = { proof, ...straight, inverted };
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, how.width) }, worker));
  return rows;
}

async function once(
  proof: Proof,
  inverted: boolean,
  how: { options: GateOptions; folder: MakeFolder },
): Promise<Pick<ProofRow, "outcome" | "seen" | "ms">> {
  const started = performance.now();
  const folder = how.folder(`${proof.harness}-${proof.id}${inverted ? "-inverted" : ""}`);
  const took = (): number => Math.round(performance.now() - started);
  try {
    const { holds, seen } = await proof.prove({ folder, inverted, options: how.options });
    return { outcome: holds ? "proved" : "refuted", seen, ms: took() };
  } catch (error) {
    const seen = error instanceof Error ? error.message : String(error);
    return { outcome: "broken", seen, ms: took() };
  }
}

/** One line a proof; a row holds when the claim was proved and, where it was tried, refuted by the inversion. */
function reportProofs(report: Report, rows: readonly ProofRow[], seen: boolean): void {
  for (const row of rows) {
    const { proof, inverted } = row;
    const turned =
      inverted === null
        ? ""
        : `; inverted (${proof.inversion}): ${inverted.outcome}, ${inverted.ms} ms`;
    const holds = row.outcome === "proved" && (inverted === null || inverted.outcome === "refuted");
    const lines = [
      `seen: ${row.seen}`,
      ...(inverted === null ? [] : [`inverted: ${inverted.seen}`]),
    ];
    report.check(
      `${proof.harness} ${proof.version}  ${proof.id}: ${proof.claim} → ${row.outcome}, ${row.ms} ms${turned}`,
      holds,
      lines.join("\n"),
    );
    if (holds && seen) for (const line of lines) report.say(`      ${line}`);
  }
}

/** What the rows prove: a capability whose proofs all held. One without a proof is not proved. */
function provedBy(rows: readonly ProofRow[]): Partial<Record<keyof Capabilities, boolean>> {
  const proved: Partial<Record<keyof Capabilities, boolean>> = {};
  for (const { proof, outcome } of rows)
    for (const capability of proof.needed)
      proved[capability] = (proved[capability] ?? true) && outcome === "proved";
  return proved;
}

/** Each run is a start of a large program: more at once only wait for each other on two cores. */
const WIDTH = 2;

/** Runs a harness's proofs, all or the named ones; with all of them, nothing may be claimed that was not proved. */
export async function proveAll(
  report: Report,
  loopback: LoopbackProof,
  options: GateOptions,
  suite: { proofs: readonly Proof[]; claimed: Capabilities },
): Promise<void> {
  const { only } = options;
  const rows = await runProofs(
    suite.proofs.filter(({ id }) => only === null || id.includes(only)),
    loopback,
    {
      options,
      folder(name) {
        const path = join(options.folder, name);
        mkdirSync(path);
        return path;
      },
      inverted: options.inverted,
      width: WIDTH,
    },
  );
  reportProofs(report, rows, options.seen);
  if (only !== null) return;
  const proved = provedBy(rows);
  for (const [capability, claimed] of Object.entries(suite.claimed))
    report.check(
      `${capability}: ${claimed ? "claimed, and proved" : "not claimed"}`,
      !claimed || proved[capability as keyof Capabilities] === true,
    );
}

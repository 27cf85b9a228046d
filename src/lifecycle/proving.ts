/**
 * What a harness of one exact version can do, on this machine: the release gate's proofs where it ran that version, else
 * the quick proofs of the program itself, made once and kept in the user's database with when and by what.
 */
import {
  capabilitiesOf,
  isConclusive,
  standingOf,
  type Capabilities,
  type Proof,
  type ProofSource,
} from "../core/proofs.ts";
import type { SerialQueues } from "../core/serial-queue.ts";
import type { Clock } from "../ports/clock.ts";
import type { Harness } from "../ports/harness.ts";
import type { Ids } from "../ports/ids.ts";
import type { Log } from "../ports/log.ts";
import type { Processes } from "../ports/processes.ts";
import type { Db } from "../store/db.ts";
import {
  insertProofRun,
  latestProofRun,
  type ProofRun,
  type ProofSubject,
} from "../store/harness-proofs.ts";

/** Some cold starts of a program of several hundred megabytes, and what it is asked meanwhile. */
export const PROVE_TIMEOUT_MS = 20_000;
/** What was refused, or could not be looked at, is looked at again after this; a plan and its yes see the same. */
const LOOK_AGAIN_MS = 120_000;
const FOLDER_MODE = 0o700;

export interface ProvedHarness {
  version: string;
  source: ProofSource;
  proofs: readonly Proof[];
  capabilities: Capabilities;
}

export interface Proving {
  /** Runs the program where nothing is known of this version yet. Throws what `Harness.version` throws. */
  of(harness: Harness, executable: string, env: Record<string, string>): Promise<ProvedHarness>;
  /** What is known of this program already; runs nothing. */
  known(harness: Harness, version: string, executable: string): Known | null;
  /** Ends programs and removes folders that a daemon which died during a proof has left. */
  sweep(): Promise<void>;
}

export interface Known extends ProvedHarness {
  /** null for the gate's proofs, which come with kiki. */
  provedAt: number | null;
}

export interface ProvingFiles {
  ensureDir(path: string, mode: number): void;
  removeTree(path: string): Promise<void>;
  listDir(path: string): string[];
  /** Identity of the file a path leads to: another one, or another state of it, has another. null: no such file. */
  fileStamp(path: string): string | null;
}

export interface ProvingDeps {
  userDb: Db;
  /** `<state>/proofs`. */
  folder: string;
  files: ProvingFiles;
  processes: Pick<Processes, "withArgument" | "signal">;
  clock: Clock;
  ids: Ids;
  queues: SerialQueues;
  log: Log;
  /** Name and version of this program. */
  by: string;
}

export function makeProving(deps: ProvingDeps): Proving {
  const subjectOf = (harness: Harness, harnessVersion: string): ProofSubject => ({
    harness: harness.name,
    adapterVersion: harness.adapterVersion,
    harnessVersion,
  });
  return {
    async of(harness, executable, env) {
      const version = await harness.version(executable, env);
      const gate = fromGate(deps, harness, subjectOf(harness, version));
      if (gate !== null) return gate;
      // One at a time: whoever waits finds what the one before has found.
      const { folder } = deps;
      return deps.queues.run(`proofs:${folder}`, async () => {
        const stamp = deps.files.fileStamp(executable) ?? "gone";
        const subject = subjectOf(harness, version);
        const kept = latestProofRun(deps.userDb, subject, executable);
        if (kept !== null && stillCounts(kept, stamp, deps.clock.now()))
          return provedBy(version, "quick", kept.proofs);
        const proofs = await quickProofs(deps, harness, { executable, version, env });
        const found = { source: "quick", executable, stamp } as const;
        insertProofRun(deps.userDb, {
          ...subject,
          ...found,
          provedAt: deps.clock.now(),
          provedBy: deps.by,
          proofs,
        });
        return provedBy(version, "quick", proofs);
      });
    },
    known(harness, version, executable) {
      const gate = harness.gateProofs(version);
      if (gate !== null) return { ...provedBy(version, "gate", gate), provedAt: null };
      const kept = latestProofRun(deps.userDb, subjectOf(harness, version), executable);
      return kept === null
        ? null
        : { ...provedBy(version, "quick", kept.proofs), provedAt: kept.provedAt };
    },
    async sweep() {
      endLeft(deps, deps.folder);
      for (const name of deps.files.listDir(deps.folder))
        await deps.files.removeTree(`${deps.folder}/${name}`);
    },
  };
}

/** Of what a program starts a part is in a group of its own; it is told by the folder in its command line. */
function endLeft({ processes }: ProvingDeps, folder: string): void {
  for (const process of processes.withArgument(`${folder}/`)) processes.signal(process, "SIGKILL");
}

/** For whoever has no database of the user's: what the gate has proved, and nothing else. */
export async function gateOnly(
  harness: Harness,
  executable: string,
  env: Record<string, string>,
): Promise<ProvedHarness> {
  const version = await harness.version(executable, env);
  return provedBy(version, "gate", harness.gateProofs(version) ?? []);
}

function provedBy(version: string, source: ProofSource, proofs: readonly Proof[]): ProvedHarness {
  return { version, source, proofs, capabilities: capabilitiesOf(proofs) };
}

/** Recorded when a version is first met, and again when a newer adapter brings other proofs. */
function fromGate(
  deps: ProvingDeps,
  harness: Harness,
  subject: ProofSubject,
): ProvedHarness | null {
  const proofs = harness.gateProofs(subject.harnessVersion);
  if (proofs === null) return null;
  const kept = latestProofRun(deps.userDb, subject, null);
  if (kept === null || JSON.stringify(kept.proofs) !== JSON.stringify(proofs)) {
    insertProofRun(deps.userDb, {
      ...subject,
      source: "gate",
      executable: null,
      stamp: null,
      provedAt: deps.clock.now(),
      provedBy: deps.by,
      proofs,
    });
  }
  return provedBy(subject.harnessVersion, "gate", proofs);
}

/** Another program of the same name and version is another program. */
function stillCounts(run: ProofRun, stamp: string, time: number): boolean {
  if (run.stamp !== stamp) return false;
  const settled = isConclusive(run.proofs) && standingOf(capabilitiesOf(run.proofs)) !== "refused";
  return settled || Math.abs(time - run.provedAt) < LOOK_AGAIN_MS;
}

async function quickProofs(
  deps: ProvingDeps,
  harness: Harness,
  of: { executable: string; version: string; env: Record<string, string> },
): Promise<readonly Proof[]> {
  // Short: programs make sockets below it, whose paths have a limit.
  const folder = `${deps.folder}/${deps.ids.uuid().slice(0, 8)}`;
  deps.files.ensureDir(folder, FOLDER_MODE);
  try {
    deps.log.info(`${harness.name} ${of.version}: quick proofs of ${of.executable}`);
    const proofs = await harness.prove({ ...of, folder, timeoutMs: PROVE_TIMEOUT_MS });
    for (const { name, outcome, reason } of proofs)
      if (outcome !== "proved")
        deps.log.warn(`${harness.name} ${of.version}: ${name} ${outcome}: ${reason}`);
    return proofs;
  } finally {
    endLeft(deps, folder);
    await deps.files.removeTree(folder).catch((error: unknown) => {
      deps.log.warn(`${folder} is left: ${String(error)}`);
    });
  }
}

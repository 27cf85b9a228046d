/** What a suite is told about the run it is part of. */
import { join } from "node:path";

export interface GateOptions {
  keep: boolean;
  record: boolean;
  /** Every proof is run a second time with its fixture turned round, and must then be refuted. */
  inverted: boolean;
  /** What each run of a proof showed is printed, also where it is as it should be. */
  seen: boolean;
  /** Only proofs whose id contains this; null: all. */
  only: string | null;
  /** Folder of the run, removed with everything in it at its end. */
  folder: string;
}

/** Where the run's own copy of kiki lies, with its links. */
export function kikiFolder(runFolder: string): string {
  return join(runFolder, "bin");
}

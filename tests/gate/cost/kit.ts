/** What the cost suite needs of a harness. */
import type { HarnessName } from "../../../src/ports/harness.ts";

/** Tool calls of one run. */
export const CALLS = 30;

/** One harness as this suite drives it. */
export interface CostKit {
  harness: HarnessName;
  version: string;
  /** Folder of the executable. */
  bin: string;
  /** A scripted model that has `CALLS` calls made, one a response. */
  model: { close(): Promise<void> };
  /** Milliseconds since the epoch at which the model was asked, oldest first, for the run with that word in its prompt. */
  askedAt(word: string): number[];
  prompt(word: string): string;
  /** Variables for the person's shell. */
  env: Record<string, string>;
  /** Command line without kiki. */
  bare(word: string): string[];
  /** Arguments of `kk new` after name and prompt. */
  thread: readonly string[];
}

/**
 * The seed of every property test: printed once for each test file, set again by `KIKI_TEST_SEED`. A counterexample that
 * is found becomes a test of its own beside the property.
 */
import fc from "fast-check";
import { testSeed } from "./random.ts";

// fast-check's seeds are signed.
const SEED = testSeed() | 0;
console.info(`property seed ${SEED} (KIKI_TEST_SEED=${SEED} runs the same again)`);

/** Parameters of `fc.assert`: this file's seed and how many cases. */
export function seeded(numRuns: number): { seed: number; numRuns: number } {
  return { seed: SEED, numRuns };
}

/** True when the property finds a counterexample: how a test shows that it would catch a wrong implementation. */
export function refuted<T>(property: fc.IProperty<T>, numRuns: number): boolean {
  return fc.check(property, seeded(numRuns)).failed;
}

/** Randomness that a seed repeats. A random test prints its seed, and `KIKI_TEST_SEED` runs it again. */

export interface Random {
  /** A whole number in 0 … below − 1. */
  below(below: number): number;
  /** True with this probability. */
  chance(probability: number): boolean;
  pick<T>(from: readonly T[]): T;
}

/** mulberry32: small, and the same everywhere. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number): number => Math.floor(next() * limit);
  return {
    below,
    chance: (probability) => next() < probability,
    pick(from) {
      if (from.length === 0) throw new Error("nothing to pick from");
      return from[below(from.length)]!;
    },
  };
}

/** `KIKI_TEST_SEED`, or a new seed. */
export function testSeed(): number {
  const given = process.env["KIKI_TEST_SEED"];
  return given === undefined ? crypto.getRandomValues(new Uint32Array(1))[0]! : Number(given);
}

/** Named crash points: a no-op in the product, a thrown crash in the matrix. */
export interface CrashPoints {
  /** `<saga>.<step>.<before|started|effected|completed>` or `intent.<what>.<moment>` (core/intent.ts). */
  at(name: string): void;
}

export const NO_CRASH: CrashPoints = { at: () => undefined };

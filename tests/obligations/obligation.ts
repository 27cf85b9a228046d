/** What has to be proven, in the words of the one who asks for it, and the tests that do. */

export interface Obligation {
  /** As it is asked for, shortened where it is long. */
  what: string;
  /** File below `tests/` → texts that occur in names of tests there, exactly as they are written in the source. */
  by: Record<string, readonly string[]>;
}

export interface Chapter {
  title: string;
  obligations: readonly Obligation[];
}

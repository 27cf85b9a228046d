/** What every jj function here needs; made once per repository by `backend.ts`. */
import type { Clock } from "../../ports/clock.ts";
import type { RepoLocation } from "../../ports/jj.ts";

export interface JjLimits {
  /** One read-only command. */
  readTimeoutMs: number;
  /** One mutating command, waiting for jj's own locks included (jj 0.46 waits for them without limit). */
  mutateTimeoutMs: number;
  /** Pauses between attempts when git refuses a lock; their number bounds the attempts. */
  lockBackoffMs: readonly number[];
}

export const DEFAULT_LIMITS: JjLimits = {
  readTimeoutMs: 30_000,
  mutateTimeoutMs: 30_000,
  // git takes its locks for milliseconds; after 1.5 s somebody is stuck and a person should hear of it.
  lockBackoffMs: [100, 200, 400, 800],
};

/** The usual limits, or less where `commandLimit` (milliseconds; null: the usual) says so when a command starts. */
export function limitsUnder(usual: JjLimits, commandLimit: () => number | null): JjLimits {
  const least = (ms: number): number => Math.min(ms, commandLimit() ?? ms);
  return {
    get readTimeoutMs() {
      return least(usual.readTimeoutMs);
    },
    get mutateTimeoutMs() {
      return least(usual.mutateTimeoutMs);
    },
    lockBackoffMs: usual.lockBackoffMs,
  };
}

export interface JjContext {
  location: RepoLocation;
  /** kiki's own jj folder; see `neutral.ts`. */
  neutral: string;
  env: Record<string, string>;
  clock: Clock;
  limits: JjLimits;
}

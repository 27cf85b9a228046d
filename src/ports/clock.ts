/** Wall clock and waiting, injected so that tests own time. */
export interface Clock {
  /** Milliseconds since the epoch. Never used to order things that have ids or sequences. */
  now(): number;
  /** Milliseconds on a clock that does not jump; for deadlines. */
  monotonic(): number;
  /** Resolves after `ms`; rejects with the signal's reason when aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** "Something about this key changed, look again": never carries state, so a missed or spurious one does no harm. */
import type { Clock } from "../ports/clock.ts";

export class Signals {
  readonly #clock: Clock;
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  notify(key: string): void {
    for (const wake of this.#waiting.get(key) ?? []) wake();
  }

  /** Resolves at the next `notify(key)`, after `ms`, or when `signal` aborts; never rejects. The caller looks again. */
  async wait(key: string, ms: number, signal?: AbortSignal): Promise<void> {
    if (ms <= 0 || signal?.aborted) return;
    const waiting = this.#waiting.get(key) ?? new Set();
    this.#waiting.set(key, waiting);
    const timer = new AbortController();
    let wake = (): void => undefined;
    const woken = new Promise<void>((resolve) => {
      wake = resolve;
    });
    waiting.add(wake);
    signal?.addEventListener("abort", wake, { once: true });
    try {
      await Promise.race([woken, this.#clock.sleep(ms, timer.signal).catch(() => undefined)]);
    } finally {
      timer.abort();
      signal?.removeEventListener("abort", wake);
      waiting.delete(wake);
      if (waiting.size === 0) this.#waiting.delete(key);
    }
  }
}

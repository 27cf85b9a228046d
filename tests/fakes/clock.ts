/** Time that only moves when a test moves it. */
import type { Clock } from "../../src/ports/clock.ts";

export class FakeClock implements Clock {
  #now = 1_700_000_000_000;
  readonly #sleepers = new Set<{ until: number; wake: () => void }>();

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#now;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const sleeper = { until: this.#now + ms, wake: resolve };
      this.#sleepers.add(sleeper);
      signal?.addEventListener(
        "abort",
        () => {
          this.#sleepers.delete(sleeper);
          reject(signal.reason as Error);
        },
        { once: true },
      );
    });
  }

  /** Somebody waits for time to pass. */
  get waiting(): boolean {
    return this.#sleepers.size > 0;
  }

  advance(ms: number): void {
    this.#now += ms;
    for (const sleeper of this.#sleepers) {
      if (sleeper.until > this.#now) continue;
      this.#sleepers.delete(sleeper);
      sleeper.wake();
    }
  }
}

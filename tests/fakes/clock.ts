/** Time that only moves when a test moves it. The wall clock may jump or go back; the other one never does. */
import type { Clock } from "../../src/ports/clock.ts";

interface Sleeper {
  until: number;
  wake: () => void;
}

export class FakeClock implements Clock {
  #wall = 1_700_000_000_000;
  #monotonic = 0;
  /** In the order in which they wake; equal moments in the order in which they began. */
  readonly #sleepers: Sleeper[] = [];

  now(): number {
    return this.#wall;
  }

  monotonic(): number {
    return this.#monotonic;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    // The machine's clock takes these for "no time at all", which is never what was meant.
    if (!Number.isFinite(ms)) throw new Error(`not a time to sleep: ${ms}`);
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason as Error);
        return;
      }
      const leave = (): void => {
        this.#sleepers.splice(this.#sleepers.indexOf(sleeper), 1);
        reject(signal?.reason as Error);
      };
      const wake = (): void => {
        signal?.removeEventListener("abort", leave);
        resolve();
      };
      const sleeper: Sleeper = { until: this.#monotonic + Math.max(0, ms), wake };
      const later = this.#sleepers.findIndex((s) => s.until > sleeper.until);
      this.#sleepers.splice(later < 0 ? this.#sleepers.length : later, 0, sleeper);
      signal?.addEventListener("abort", leave, { once: true });
    });
  }

  /** Somebody waits for time to pass. */
  get waiting(): boolean {
    return this.#sleepers.length > 0;
  }

  /** Milliseconds until the next sleeper wakes; null when nobody sleeps. */
  get nextWake(): number | null {
    const [next] = this.#sleepers;
    return next === undefined ? null : next.until - this.#monotonic;
  }

  /** Moves both clocks and wakes who is due, in order. What they do next happens after this returns. */
  advance(ms: number): void {
    if (!(ms >= 0))
      throw new Error("time that passes does not go back; use `jump` for the wall clock");
    this.#move(ms);
    while (this.#sleepers[0] !== undefined && this.#sleepers[0].until <= this.#monotonic) {
      this.#sleepers.shift()!.wake();
    }
  }

  /** Moves from one sleeper to the next, so that each finds the time it asked for, and may sleep again within `ms`. */
  async run(ms: number): Promise<void> {
    const end = this.#monotonic + ms;
    for (;;) {
      const next = this.nextWake;
      if (next === null || this.#monotonic + next > end) break;
      this.advance(Math.max(0, next));
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    this.advance(end - this.#monotonic);
  }

  /** Somebody sets the machine's wall clock, forwards or back. Sleepers do not notice. */
  jump(ms: number): void {
    this.#wall += ms;
  }

  #move(ms: number): void {
    this.#wall += ms;
    this.#monotonic += ms;
  }
}

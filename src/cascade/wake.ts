/**
 * When a repository's operations are read: soon after a file event, and by polling whatever events do, because events
 * are lossy by contract. Says why when it has to do without them.
 */
import { errorLine } from "../core/errors.ts";
import type { CascadeDeps } from "./deps.ts";

/** Without events a poll is all there is, so it comes this many times as often. It lists one folder. */
const POLLS_WITHOUT_EVENTS = 5;
/** Polls between two attempts to get events back. */
const POLLS_PER_ATTEMPT = 30;
/** Polls in a row that found operations no event had told of. One may only have overtaken its event. */
const UNTOLD_POLLS = 2;
/** A reading that takes longer than this is no longer behind a busy machine only. */
const SLOW_READING_MS = 5_000;

/** How jj's operations are noticed, and whether they are read at all. */
export interface Watching {
  events: boolean;
  reason: string | null;
  /**
   * Why moves of parents are noticed late, or not, just now: jj has not answered for some seconds, or the newest reading
   * failed. null: all is read. Hooks do not wait for it; what is found later is told at the boundary that comes then.
   */
  degraded: string | null;
}

export class Wake {
  readonly #deps: Pick<CascadeDeps, "clock" | "fsEvents" | "jj" | "log" | "settings">;
  readonly #read: () => Promise<boolean>;
  readonly #stopping = new AbortController();
  #disarm: (() => Promise<void>) | null = null;
  /** An event has come and its reading has not begun. */
  #due = false;
  #reading = false;
  #again = false;
  /** Events since the last poll. */
  #told = 0;
  #untold = 0;
  #polls = 0;
  #how: Omit<Watching, "degraded"> = { events: false, reason: "not started" };
  /** Monotonic time at which the reading under way began. */
  #since: number | null = null;
  /** Why the newest reading that has ended failed. */
  #failure: string | null = null;

  /** `read` reads everything there is, and says whether anything was new. */
  constructor(
    deps: Pick<CascadeDeps, "clock" | "fsEvents" | "jj" | "log" | "settings">,
    read: () => Promise<boolean>,
  ) {
    this.#deps = deps;
    this.#read = read;
  }

  get state(): Watching {
    return { ...this.#how, degraded: this.#degraded() };
  }

  #degraded(): string | null {
    const ms = this.#since === null ? 0 : this.#deps.clock.monotonic() - this.#since;
    if (ms > SLOW_READING_MS)
      return `jj has not shown its newest operations for ${Math.floor(ms / 1_000)} s`;
    return this.#failure === null ? null : `jj's operations cannot be read: ${this.#failure}`;
  }

  async start(): Promise<void> {
    await this.#arm();
    void this.#pollLoop(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#disarm?.();
  }

  async #arm(): Promise<void> {
    await this.#disarm?.();
    this.#disarm = null;
    const armed = await this.#deps.fsEvents.watch(
      this.#deps.jj.headsFolder,
      () => this.#event(),
      (reason) => this.#lost(reason),
    );
    if (this.#stopping.signal.aborted) return armed.stop();
    this.#disarm = () => armed.stop();
    this.#how = { events: armed.armed, reason: armed.reason ?? null };
  }

  #lost(reason: string): void {
    if (this.#how.events) this.#deps.log.warn(`file events of jj's operations: ${reason}`);
    this.#how = { events: false, reason };
    this.#event();
  }

  /**
   * One reading per debounce, counted from the first event of a burst: later events do not put it off, so that a storm
   * that never pauses is read all the same.
   */
  #event(): void {
    this.#told += 1;
    if (this.#due) return;
    this.#due = true;
    const { clock, settings } = this.#deps;
    clock.sleep(settings.debounceMs, this.#stopping.signal).then(
      () => {
        this.#due = false;
        void this.#readSoon();
      },
      () => undefined, // stopped
    );
  }

  /** One reading at a time, and one more when asked meanwhile: readings do not queue up behind a storm. */
  async #readSoon(): Promise<boolean> {
    if (this.#reading) {
      this.#again = true;
      return false;
    }
    this.#reading = true;
    let news = false;
    try {
      do {
        this.#again = false;
        news = (await this.#readQuietly()) || news;
      } while (this.#again && !this.#stopping.signal.aborted);
    } finally {
      this.#reading = false;
    }
    return news;
  }

  async #readQuietly(): Promise<boolean> {
    try {
      this.#since = this.#deps.clock.monotonic();
      const news = await this.#read();
      this.#failure = null;
      return news;
    } catch (error) {
      this.#failure = errorLine(error);
      this.#deps.log.warn(`reading operations failed: ${this.#failure}`);
      return false;
    } finally {
      this.#since = null;
    }
  }

  async #pollLoop(signal: AbortSignal): Promise<void> {
    const { clock, settings } = this.#deps;
    while (!signal.aborted) {
      const pause = this.#how.events ? settings.pollMs : settings.pollMs / POLLS_WITHOUT_EVENTS;
      try {
        await clock.sleep(pause, signal);
      } catch {
        return;
      }
      if (!signal.aborted) await this.#poll();
    }
  }

  /** No process is spawned while nothing moves. */
  async #poll(): Promise<void> {
    const told = this.#told > 0 || this.#due;
    const news = await this.#readSoon();
    // An event that came during the reading counts for it.
    this.#judge(told || this.#told > 0, news);
    this.#told = 0;
    if (this.#how.events) return;
    this.#polls += 1;
    if (this.#polls % POLLS_PER_ATTEMPT === 0) await this.#rearm();
  }

  /** Events may stop coming without a word (network and overlay file systems): polls that find news alone say so. */
  #judge(told: boolean, news: boolean): void {
    if (told || !this.#how.events) this.#untold = 0;
    else if (news) this.#untold += 1;
    if (this.#untold < UNTOLD_POLLS) return;
    this.#untold = 0;
    this.#lost("operations appeared that no file event told of");
  }

  async #rearm(): Promise<void> {
    try {
      await this.#arm();
    } catch (error) {
      this.#deps.log.warn(`file events could not be had again: ${errorLine(error)}`);
    }
  }
}

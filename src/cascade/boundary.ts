/**
 * In-memory side of one incarnation's boundary: who is held, who confirmed, whether admission is closed. Nothing here
 * is evidence: a restart loses it, held hooks then deny by themselves, and the durable rows decide.
 */
import type { HookDecision } from "../core/hook-decision.ts";
import type { Clock } from "../ports/clock.ts";

export interface HeldCall {
  agentId: string;
  ordinal: number;
  promptId: string | null;
  toolUseId: string;
  toolName: string;
  /** Of a serial harness: its session record, and the call's response there; null: the record does not show it. */
  recordPath?: string | null;
  modelTurn?: number | null;
  /** It is not the first of its response, and goes only after that one. */
  sibling?: boolean;
}

export interface Hold {
  token: string;
  call: HeldCall;
  /** The hook said that from here it allows only on an explicit release. */
  confirmed: boolean;
  /** Its connection ended before an answer: it denied by itself, or will look at the barrier marker. */
  gone: boolean;
  toldAt: number;
  answer: Promise<HookDecision>;
  settle(decision: HookDecision): void;
}

/** `open`: nothing is bound yet, so that siblings of a batch that was let through may go through. */
export interface Settling {
  intentId: string;
  ordinal: number;
  open: boolean;
}

export class Boundary {
  readonly holds = new Map<string, Hold>();
  /** Answers of holds that were settled before their hook came to wait. Emptied by the next settlement. */
  readonly #early = new Map<string, HookDecision>();
  /** Non-null while admission is closed: calls get `hold`. */
  settling: Settling | null = null;
  /** Main batches in a row that could not be bound. */
  unbindable = 0;
  #waiters: (() => void)[] = [];

  add(token: string, call: HeldCall, toldAt: number): Hold {
    const { promise, resolve } = Promise.withResolvers<HookDecision>();
    const hold: Hold = {
      token,
      call,
      confirmed: false,
      gone: false,
      toldAt,
      answer: promise,
      settle: (decision) => {
        this.holds.delete(token);
        if (!hold.confirmed) this.#early.set(token, decision);
        resolve(decision);
      },
    };
    this.holds.set(token, hold);
    this.changed();
    return hold;
  }

  /** Closes admission. */
  begin(settling: Settling): void {
    this.#early.clear();
    this.settling = settling;
  }

  /** Opens admission again, in the same breath in which the last held call gets its answer. */
  end(settling: Settling | null): void {
    if (settling === null || this.settling !== settling) return;
    this.settling = null;
    this.changed();
  }

  /** The answer to a hold that is over; once. */
  takeEarly(token: string): HookDecision | undefined {
    const decision = this.#early.get(token);
    this.#early.delete(token);
    return decision;
  }

  /** Something a waiting settlement may care about happened. */
  changed(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
  }

  /** Resolves at the next change or after `ms`, whichever comes first. */
  async nextChange(clock: Pick<Clock, "sleep">, ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiters.push(resolve);
    const timer = new AbortController();
    await Promise.race([promise, clock.sleep(ms, timer.signal).catch(() => undefined)]);
    timer.abort();
  }
}

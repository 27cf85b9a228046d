/**
 * In-memory side of one incarnation's boundary: who is held, who confirmed, whether admission is closed. Nothing here
 * is evidence: a restart loses it, held hooks then deny by themselves, and the durable rows decide.
 */
import type { HookDecision } from "../core/hook-decision.ts";

export interface HeldCall {
  agentId: string;
  ordinal: number;
  promptId: string | null;
  toolUseId: string;
  toolName: string;
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

export class Boundary {
  readonly holds = new Map<string, Hold>();
  /** Non-null while admission is closed: calls get `hold`. */
  settling: { intentId: string; ordinal: number } | null = null;
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
        resolve(decision);
      },
    };
    this.holds.set(token, hold);
    this.changed();
    return hold;
  }

  /** Something a waiting settlement may care about happened. */
  changed(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
  }

  /** Resolves at the next change or after `ms`, whichever comes first. */
  async nextChange(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiters.push(resolve);
    const timer = setTimeout(resolve, ms);
    await promise;
    clearTimeout(timer);
  }
}

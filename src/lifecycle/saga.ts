/** What a saga is to whoever writes one: its steps, and what they share. `saga-runner.ts` runs it. */
import type { SagaPlan } from "../core/saga.ts";
import type { Clock } from "../ports/clock.ts";
import type { CrashPoints } from "../ports/crash.ts";
import type { Log } from "../ports/log.ts";
import type { Db } from "../store/db.ts";

/** What the world says about a step that was started before a restart. */
export type Observation<E> =
  /** It happened: adopted with this evidence, never done again. */
  | { is: "done"; evidence: E }
  /** It did not happen, or only so far that `run` goes on from there: `run` may be called. */
  | { is: "not-done" }
  /** Nobody can tell, or somebody else's thing is in the way: the saga fails and unwinds. */
  | { is: "unknown"; reason: string };

/**
 * One step. `I`: the identity its effect is recognised by, `E`: the evidence of it; both are plain JSON and end up
 * in the journal, so neither holds a secret. The `on…` functions are extra writes in the transaction that journals
 * the move; they are synchronous and have no other effect.
 */
export interface StepDef<C, I, E> {
  readonly name: string;
  identity(ctx: C): I | Promise<I>;
  observe(ctx: C, identity: I): Observation<E> | Promise<Observation<E>>;
  run(ctx: C, identity: I): E | Promise<E>;
  /** Undoes what `run` may have done, wholly or in part; called again after a crash, so it looks before it acts. */
  compensate?(ctx: C, identity: I, evidence: E | null): Promise<void>;
  /**
   * Whether another attempt may cure this failure, of the effect or of undoing it. Absent: never, the first failure
   * counts. The plan bounds the attempts; each begins with a look at what the last one did.
   */
  retryable?(error: unknown): boolean;
  onStarted?(db: Db, ctx: C, identity: I): void;
  onCompleted?(db: Db, ctx: C, evidence: E, identity: I): void;
  onCompensating?(db: Db, ctx: C, identity: I): void;
  onCompensated?(db: Db, ctx: C, identity: I): void;
}

/** Steps of different identities and evidence in one list: the runner only hands both back to the step they are of. */
export type AnyStep<C> = StepDef<C, unknown, unknown>;

/** Thrown by a step that must stop without failing: the daemon is going down, a later start goes on from here. */
export class SagaSuspended extends Error {
  constructor() {
    super("the daemon is stopping");
    this.name = "SagaSuspended";
  }
}

export interface Saga<C> {
  plan: SagaPlan;
  steps: readonly AnyStep<C>[];
  operationId: string;
  ctx: C;
  db: Db;
  clock: Clock;
  crash: CrashPoints;
  log: Log;
  /** Aborts when the daemon stops: the saga is left at its next journal entry. */
  stopping: AbortSignal;
  /** Called after every journal entry. */
  progressed(): void;
  /** Extra writes in the transaction that ends the operation, after its row has ended. */
  onFinished(db: Db): void;
  /** `unwound`: everything was undone. `stuck`: something stays, and the same plan can be taken up again. */
  onFailed(db: Db, error: string, how: SagaFailure): void;
}

export type SagaFailure = "unwound" | "stuck";

/** Outcome of something a caller must branch on. Throwing is for bugs and unexpected I/O. */
export type Result<T, E> = { ok: true; value: T } | { ok: false; error: E };

export function ok<T>(value: T): { ok: true; value: T } {
  return { ok: true, value };
}

export function err<E>(error: E): { ok: false; error: E } {
  return { ok: false, error };
}

/**
 * What an outside observer can honestly say. `unknown` is not `absent`: a failed or empty query proves nothing
 * (tmux 3.3a answers rc 0 with empty output for a target that does not exist).
 */
export type Observed<T> = { known: true; value: T } | { known: false; reason: string };

export function assertNever(value: never, what: string): never {
  throw new Error(`unexpected ${what}: ${JSON.stringify(value)}`);
}

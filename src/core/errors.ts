/**
 * One error type for everything a person may see. `code` is stable (tests and scripts match on it), `message` says
 * what is wrong in one line, `hint` is the next command to type or the next thing to do.
 */

/** Exit codes of `kk` (commands chapter). */
export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  approval: 4,
  daemonUnavailable: 5,
  needsRepair: 6,
} as const;

export type ErrorKind = keyof Omit<typeof EXIT, "ok">;

export interface KikiErrorData {
  kind: ErrorKind;
  code: string;
  message: string;
  hint?: string;
}

export class KikiError extends Error {
  readonly kind: ErrorKind;
  readonly code: string;
  readonly hint: string | undefined;

  constructor(data: KikiErrorData, cause?: unknown) {
    super(data.message, cause === undefined ? undefined : { cause });
    this.name = "KikiError";
    this.kind = data.kind;
    this.code = data.code;
    this.hint = data.hint;
  }

  get exitCode(): number {
    return EXIT[this.kind];
  }

  toData(): KikiErrorData {
    const data: KikiErrorData = { kind: this.kind, code: this.code, message: this.message };
    return this.hint === undefined ? data : { ...data, hint: this.hint };
  }
}

/** Shorthand for the common case. */
export function fail(kind: ErrorKind, code: string, message: string, hint?: string): KikiError {
  return new KikiError(
    hint === undefined ? { kind, code, message } : { kind, code, message, hint },
  );
}

/** One line for logs and stderr, never a stack. */
export function errorLine(error: unknown): string {
  if (error instanceof Error) return error.message.split("\n")[0] ?? error.name;
  return String(error);
}

/** One line of an error, with its remedy: what a journal keeps and a person reads. */
export function describeError(error: unknown): string {
  const hint = error instanceof KikiError && error.hint !== undefined ? ` — ${error.hint}` : "";
  return `${errorLine(error)}${hint}`;
}

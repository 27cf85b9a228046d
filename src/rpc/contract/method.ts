/** What the contract says about each of its methods. Data only: the daemon's authority enforces it, docs are made of it. */
import type { z } from "zod";
import type { Access, Target } from "../../core/access.ts";

export interface MethodSpec {
  doc: string;
  access: Access;
  input: z.ZodType;
  output: z.ZodType;
  /** Body limit in bytes. */
  maxBody: number;
}

export const MAX_BODY_BYTES = 1024 * 1024;
export const MAX_HOOK_BODY_BYTES = 64 * 1024 * 1024;

/** A method has to say what it demands: there is no default. */
export function method<I extends z.ZodType, O extends z.ZodType>(spec: {
  doc: string;
  access: Access;
  input: I;
  output: O;
  maxBody?: number;
}): { doc: string; access: Access; input: I; output: O; maxBody: number } {
  return { maxBody: MAX_BODY_BYTES, ...spec };
}

/** Answers anybody who reaches the socket. */
export function open(audit: readonly string[] = []): Access {
  return { ...free("none", { sink: "user", audit }), callers: "anyone" };
}

/** A read or a harmless refresh for any of the user's credentials. */
export function free(target: Target, more: Partial<Access> = {}): Access {
  return {
    callers: "user",
    target,
    threads: "any",
    approval: "never",
    spent: "at-once",
    sink: "repo",
    audit: [],
    ...more,
  };
}

/** What only a person's yes to its exact plan begins. */
export function consequential(target: Target, more: Partial<Access> = {}): Access {
  return free(target, { approval: "always", spent: "with-effect", ...more });
}

/** A read of one thread, which another thread needs an approval for. */
export function ofThread(more: Partial<Access> = {}): Access {
  return free("thread", { threads: "own", approval: "sibling", ...more });
}

/** A thread speaking for itself. */
export function ownThread(target: Target, audit: readonly string[] = []): Access {
  return free(target, { callers: "own-thread", threads: "own", audit });
}

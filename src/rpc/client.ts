/**
 * A client of the daemon. The contract is used as types only: the method table and its validator would cost every
 * `kk` start more than the request itself, and the daemon has validated both directions already.
 */
import { KikiError, type ErrorKind, type KikiErrorData } from "../core/errors.ts";
import type { Input, MethodName, Output } from "./contract/methods.ts";
import { AUTH_SCHEME, VERSION_HEADER } from "./contract/wire.ts";

export interface ClientOptions {
  /** Path of the daemon's socket. */
  socket: string;
  /** Secret text of a credential; null for methods that ask for none. */
  credential: string | null;
  clientVersion: string;
}

export interface CallOptions {
  /** Whole call, in milliseconds. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

export interface Client {
  readonly socket: string;
  /**
   * Calls one method. Throws KikiError: what the daemon answered, or `daemon-unreachable`, `daemon-timeout`,
   * `daemon-garbled`, all of kind `daemonUnavailable`. Aborting `signal` rejects with its reason.
   */
  call<M extends MethodName>(method: M, input: Input<M>, options?: CallOptions): Promise<Output<M>>;
}

/** Long enough for a slow jj, short enough that nobody thinks the terminal hangs for ever. */
export const DEFAULT_TIMEOUT_MS = 60_000;

export function makeClient(options: ClientOptions): Client {
  const headers: Record<string, string> = {
    "content-type": "application/json",
    [VERSION_HEADER]: options.clientVersion,
  };
  if (options.credential !== null) {
    headers["authorization"] = `${AUTH_SCHEME} ${options.credential}`;
  }
  return {
    socket: options.socket,
    async call(method, input, callOptions = {}) {
      const deadline = AbortSignal.timeout(callOptions.timeoutMs ?? DEFAULT_TIMEOUT_MS);
      const signal =
        callOptions.signal === undefined
          ? deadline
          : AbortSignal.any([deadline, callOptions.signal]);
      let response: Response;
      let text: string;
      try {
        response = await fetch(`http://kiki/v1/${method}`, {
          method: "POST",
          unix: options.socket,
          headers,
          body: JSON.stringify(input),
          signal,
        });
        text = await response.text();
      } catch (error) {
        if (callOptions.signal?.aborted === true) throw callOptions.signal.reason;
        throw deadline.aborted ? timedOut(method, error) : unreachable(options.socket, error);
      }
      return readAnswer(method, response.status, text);
    },
  };
}

function readAnswer<M extends MethodName>(method: M, status: number, text: string): Output<M> {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    throw garbled(`${method}: the daemon answered ${status} without JSON`, error);
  }
  if (status === 200) return body as Output<M>;
  const data = (body as { error?: Partial<KikiErrorData> } | null)?.error;
  if (typeof data?.code !== "string" || typeof data.message !== "string") {
    throw garbled(`${method}: the daemon answered ${status} without saying why`);
  }
  // A kind this client does not know (a newer daemon) is still a failure.
  const kind: ErrorKind = isKind(data.kind) ? data.kind : "failed";
  const error = { kind, code: data.code, message: data.message };
  throw new KikiError(data.hint === undefined ? error : { ...error, hint: data.hint });
}

const KINDS: Record<ErrorKind, true> = {
  failed: true,
  usage: true,
  notFound: true,
  approval: true,
  daemonUnavailable: true,
  needsRepair: true,
};

function isKind(kind: unknown): kind is ErrorKind {
  return typeof kind === "string" && Object.hasOwn(KINDS, kind);
}

function unreachable(socket: string, cause: unknown): KikiError {
  return new KikiError(
    {
      kind: "daemonUnavailable",
      code: "daemon-unreachable",
      message: `the daemon does not answer on ${socket}`,
      hint: "kk doctor",
    },
    cause,
  );
}

function timedOut(method: string, cause: unknown): KikiError {
  return new KikiError(
    {
      kind: "daemonUnavailable",
      code: "daemon-timeout",
      message: `the daemon did not answer ${method} in time`,
      hint: "kk daemon logs",
    },
    cause,
  );
}

function garbled(message: string, cause?: unknown): KikiError {
  return new KikiError(
    { kind: "daemonUnavailable", code: "daemon-garbled", message, hint: "kk daemon restart" },
    cause,
  );
}

/**
 * The daemon's end of the contract: `POST /v1/<Method>` over a unix socket, driven by the METHODS table. Knows
 * nothing of what the methods do; authentication and handlers are given.
 */
import type { z } from "zod";
import { errorLine, fail, KikiError } from "../core/errors.ts";
import { MAX_HOOK_BODY_BYTES } from "./contract/method.ts";
import { METHODS, type Input, type MethodName, type Output } from "./contract/methods.ts";
import { STATUS_BY_KIND, VERSION_HEADER } from "./contract/wire.ts";

/** What becomes known of a request while it is handled, for its audit row. */
export interface RequestNotes {
  /** It was answered, and what it asked for was refused all the same: the stable code of why. */
  refused?: string;
  /** Plain values; never a secret. */
  detail: Record<string, unknown>;
}

/** One parseable request, from its arrival to its one audit row. */
export interface Attempt<Caller> {
  /**
   * Who is asking, and the request as the handler gets it: what it is about is settled. `input` is already validated.
   * Throws KikiError when this caller may not.
   */
  authorize(input: unknown): Promise<{ caller: Caller; input: unknown }>;
  /** Resolves once the row is durable, which is before the answer. `error`: code of what the request was refused for. */
  record(outcome: { input: unknown; error: string | null; notes: RequestNotes }): Promise<void>;
}

export interface RpcContext<Caller> {
  caller: Caller;
  notes: RequestNotes;
  /** Fires when the client hung up, and when the server gives up waiting at the end of its drain. */
  signal: AbortSignal;
  /** Fires as soon as the server starts to stop: pure waits end here, work in progress goes on. */
  stopping: AbortSignal;
  /** What the client says it is; null when it says nothing (curl). */
  clientVersion: string | null;
}

export type Handler<M extends MethodName, Caller> = (
  input: Input<M>,
  context: RpcContext<Caller>,
) => Output<M> | Promise<Output<M>>;

export type Handlers<Caller> = { [M in MethodName]: Handler<M, Caller> };

export interface RpcServerOptions<Caller> {
  /** Path to bind. Removed beforehand and restricted by mode by the caller, who holds the lock. */
  unixPath: string;
  handlers: Handlers<Caller>;
  /** Called for every request that names a method of the contract and has a JSON body. */
  attempt(method: MethodName, header: string | null): Attempt<Caller>;
  version: string;
  log: { error(message: string, cause?: unknown): void };
}

export interface RpcServer {
  /** Requests whose answer is not out yet. */
  inFlight(): number;
  /**
   * Refuses new requests (503 `daemon-stopping`), lets running ones finish for at most `drainMs`, then aborts them
   * and closes the socket, which removes its file. Never rejects.
   */
  stop(drainMs: number): Promise<void>;
}

/** After the drain, aborted handlers get this long to notice before the socket closes under them. */
const ABORT_GRACE_MS = 500;
/** Bun closes the listener itself once its connections are idle; a connection kept open must not delay that. */
const CLOSE_GRACE_MS = 250;

/**
 * Held requests are long and the default of 10 s cuts them off, over a unix socket as well; bun-types 1.4.5 declares
 * the option for TCP only, hence the loose type.
 */
const HELD_REQUESTS: object = { idleTimeout: 0 };

const STATUS_TOO_LARGE = 413;
const STATUS_BAD_METHOD = 405;

/** Starts serving. Throws what the bind throws (EADDRINUSE, ENAMETOOLONG, …). */
export function serveRpc<Caller>(options: RpcServerOptions<Caller>): RpcServer {
  const stopping = new AbortController();
  const hardStop = new AbortController();
  const running = new Set<Promise<Response>>();
  const server = Bun.serve({
    unix: options.unixPath,
    ...HELD_REQUESTS,
    // One above the largest limit, so that our own 413, which explains itself, comes first.
    maxRequestBodySize: MAX_HOOK_BODY_BYTES + 1,
    fetch(request) {
      const answer = stopping.signal.aborted
        ? Promise.resolve(refusal(stoppingError()))
        : dispatch(request, options, stopping.signal, hardStop.signal);
      const stamped = answer.then((response) => {
        response.headers.set(VERSION_HEADER, options.version);
        return response;
      });
      running.add(stamped);
      void stamped.finally(() => running.delete(stamped));
      return stamped;
    },
    error(error) {
      options.log.error("request failed outside dispatch", error);
      return refusal(internalError());
    },
  });

  const idle = async (): Promise<void> => {
    while (running.size > 0) await Promise.allSettled(running);
  };
  return {
    inFlight: () => running.size,
    async stop(drainMs) {
      stopping.abort(stoppingError());
      await atMost(idle(), drainMs);
      hardStop.abort(stoppingError());
      await atMost(idle(), ABORT_GRACE_MS);
      await atMost(server.stop(false), CLOSE_GRACE_MS);
      await atMost(server.stop(true), CLOSE_GRACE_MS);
    },
  };
}

async function dispatch<Caller>(
  request: Request,
  options: RpcServerOptions<Caller>,
  stopping: AbortSignal,
  hardStop: AbortSignal,
): Promise<Response> {
  const name = new URL(request.url).pathname.replace(/^\/v1\//, "");
  try {
    if (!isMethod(name)) {
      throw fail(
        "notFound",
        "unknown-method",
        `this daemon has no method ${JSON.stringify(name.slice(0, 64))}`,
        "kk daemon restart — the running daemon may be older than its client",
      );
    }
    if (request.method !== "POST") {
      const error = fail("usage", "not-a-post", `${name} is called by POST`);
      return refusal(error, STATUS_BAD_METHOD);
    }
    const body = await readBody(request, METHODS[name].maxBody);
    if (body instanceof KikiError) return refusal(body, STATUS_TOO_LARGE);
    const raw = parseJson(name, body);
    return await attempted(name, raw, request, options, { stopping, hardStop });
  } catch (error) {
    return answerTo(error, name, request, options);
  }
}

/** From here on the request leaves an audit row, whatever becomes of it. */
async function attempted<Caller>(
  name: MethodName,
  raw: unknown,
  request: Request,
  options: RpcServerOptions<Caller>,
  signals: { stopping: AbortSignal; hardStop: AbortSignal },
): Promise<Response> {
  const attempt = options.attempt(name, request.headers.get("authorization"));
  const notes: RequestNotes = { detail: {} };
  let input: unknown = null;
  let response: Response;
  let error: string | null = null;
  try {
    input = parseInput(name, raw);
    const allowed = await attempt.authorize(input);
    const handler = options.handlers[name] as Handler<MethodName, Caller>;
    const output: unknown = await handler(allowed.input as never, {
      caller: allowed.caller,
      notes,
      signal: AbortSignal.any([request.signal, signals.hardStop]),
      stopping: signals.stopping,
      clientVersion: request.headers.get(VERSION_HEADER),
    });
    // Parsing the output drops every field the contract does not declare: nothing leaves by accident.
    response = Response.json(METHODS[name].output.parse(output));
  } catch (thrown) {
    error = thrown instanceof KikiError ? thrown.code : "internal";
    response = answerTo(thrown, name, request, options);
  }
  // A row that cannot be written fails the answer: nothing is done that nobody can look up.
  await attempt.record({ input, error, notes });
  return response;
}

function answerTo<Caller>(
  error: unknown,
  name: string,
  request: Request,
  options: RpcServerOptions<Caller>,
): Response {
  if (error instanceof KikiError) return refusal(error);
  if (!request.signal.aborted) options.log.error(`${name}: ${errorLine(error)}`, error);
  return refusal(internalError());
}

function isMethod(name: string): name is MethodName {
  return Object.hasOwn(METHODS, name);
}

/** The body as text, or the error when it is larger than `limit` bytes; never holds more than that in memory. */
async function readBody(request: Request, limit: number): Promise<string | KikiError> {
  const tooLarge = fail(
    "usage",
    "body-too-large",
    `the request body is larger than ${limit} bytes`,
  );
  if (Number(request.headers.get("content-length") ?? 0) > limit) return tooLarge;
  if (request.body === null) return "";
  const chunks: Uint8Array[] = [];
  let size = 0;
  // A body may come in chunks without a declared length, so it is counted as it arrives.
  for await (const chunk of request.body as unknown as AsyncIterable<Uint8Array>) {
    size += chunk.length;
    if (size > limit) return tooLarge;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Throws KikiError `bad-json`. An empty body is `{}`. */
function parseJson(name: MethodName, body: string): unknown {
  try {
    return body.trim() === "" ? {} : JSON.parse(body);
  } catch {
    throw fail("usage", "bad-json", `${name}: the request body is not JSON`);
  }
}

/** Throws KikiError `bad-field`; unknown fields are dropped. */
function parseInput<M extends MethodName>(name: M, raw: unknown): Input<M> {
  const parsed = METHODS[name].input.safeParse(raw);
  if (parsed.success) return parsed.data as Input<M>;
  throw fail("usage", "bad-field", `${name}: ${describeIssue(parsed.error.issues[0], raw)}`);
}

/** One line that names the field, e.g. `missing field "repo.folder"`. */
function describeIssue(issue: z.core.$ZodIssue | undefined, raw: unknown): string {
  if (issue === undefined) return "bad input";
  const path = issue.path.map(String).join(".");
  if (path === "") return "the request body must be a JSON object";
  if (valueAt(raw, issue.path) === undefined) return `missing field ${JSON.stringify(path)}`;
  return `field ${JSON.stringify(path)}: ${issue.message.replaceAll("\n", " ")}`;
}

function valueAt(raw: unknown, path: readonly PropertyKey[]): unknown {
  let at: unknown = raw;
  for (const key of path) {
    if (typeof at !== "object" || at === null) return undefined;
    at = (at as Record<PropertyKey, unknown>)[key];
  }
  return at;
}

function refusal(error: KikiError, status: number = STATUS_BY_KIND[error.kind]): Response {
  return Response.json({ error: error.toData() }, { status });
}

/** What an unexpected failure looks like from outside: the details are in the log, not on the wire. */
function internalError(): KikiError {
  return fail("failed", "internal", "the daemon hit an unexpected error", "kk daemon logs");
}

function stoppingError(): KikiError {
  return fail("daemonUnavailable", "daemon-stopping", "the daemon is stopping", "try again");
}

/** Waits for `work`, but no longer than `ms`; its failure is not ours to report. */
async function atMost(work: Promise<unknown>, ms: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  work.then(
    () => resolve(),
    () => resolve(),
  );
  await promise;
  clearTimeout(timer);
}

/** A daemon that knows the contract and nothing else: every method answers from a test's own table. */
import { join } from "node:path";
import { fail, KikiError } from "../../src/core/errors.ts";
import { METHODS, type MethodName } from "../../src/rpc/contract/methods.ts";
import { serveRpc, type Handlers, type RpcContext, type RpcServer } from "../../src/rpc/server.ts";
import { tempDir } from "./temp.ts";

export type ToyHandler = (input: never, context: RpcContext<string>) => unknown;

export interface Toy {
  socket: string;
  server: RpcServer;
  logged: string[];
  /** Raw POST, so that a test can send what no client would. */
  post: (
    method: string,
    body: string | ReadableStream | null,
    headers?: Record<string, string>,
    signal?: AbortSignal,
  ) => Promise<Response>;
}

export const TOY_VERSION = "9.8.7";

export function toyServer(
  table: Partial<Record<MethodName, ToyHandler>>,
  authenticate: (header: string | null) => string | KikiError = () => "anybody",
): Toy {
  const socket = join(tempDir("rpc"), "toy.sock");
  const logged: string[] = [];
  const missing: ToyHandler = () => {
    throw fail("notFound", "toy", "not in this test");
  };
  const names = Object.keys(METHODS) as MethodName[];
  const handlers = Object.fromEntries(names.map((name) => [name, table[name] ?? missing]));
  const server = serveRpc<string>({
    unixPath: socket,
    handlers: handlers as unknown as Handlers<string>,
    attempt: (_, header) => ({
      authorize(input) {
        const caller = authenticate(header);
        return caller instanceof KikiError
          ? Promise.reject(caller)
          : Promise.resolve({ caller, input });
      },
      record: () => Promise.resolve(),
    }),
    version: TOY_VERSION,
    log: { error: (message) => void logged.push(message) },
  });
  return {
    socket,
    server,
    logged,
    post: (method, body, headers = {}, signal) =>
      fetch(`http://kiki/v1/${method}`, {
        method: "POST",
        unix: socket,
        headers,
        ...(body === null ? {} : { body }),
        ...(signal === undefined ? {} : { signal }),
      }),
  };
}

export async function errorOf(response: Response): Promise<Record<string, unknown>> {
  return ((await response.json()) as { error: Record<string, unknown> }).error;
}

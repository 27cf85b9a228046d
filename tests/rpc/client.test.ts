/** The typed client: what comes back, and what each way of not coming back is called. */
import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import { fail, KikiError } from "../../src/core/errors.ts";
import { makeClient } from "../../src/rpc/client.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { toyServer, type Toy } from "../support/toy-server.ts";

const running: Toy[] = [];
afterAll(async () => {
  for (const toy of running) await toy.server.stop(0);
  removeTempDirs();
});

function start(...args: Parameters<typeof toyServer>): Toy {
  const toy = toyServer(...args);
  running.push(toy);
  return toy;
}

function clientOf(socket: string, credential: string | null = null) {
  return makeClient({ socket, credential, clientVersion: "0.1.0" });
}

async function failureOf(work: Promise<unknown>): Promise<KikiError> {
  try {
    await work;
  } catch (error) {
    if (error instanceof KikiError) return error;
    throw error;
  }
  throw new Error("it worked");
}

test("client: answer → the method's output", async () => {
  const { socket } = start({ ListRepos: () => ({ repos: [] }) });
  expect(await clientOf(socket).call("ListRepos", {})).toEqual({ repos: [] });
});

test("client: the daemon's error → the same KikiError, with its exit code", async () => {
  const { socket } = start({
    ListRepos: () => {
      throw fail("notFound", "not-registered", "not registered", "kk init");
    },
  });
  const error = await failureOf(clientOf(socket).call("ListRepos", {}));
  expect(error.toData()).toEqual({
    kind: "notFound",
    code: "not-registered",
    message: "not registered",
    hint: "kk init",
  });
  expect(error.exitCode).toBe(3);
});

test("client: nobody listens → daemon-unreachable, exit code 5", async () => {
  const folder = tempDir("rpc");
  for (const socket of [join(folder, "none.sock"), folder]) {
    const error = await failureOf(clientOf(socket).call("ListRepos", {}));
    expect([error.kind, error.code, error.exitCode]).toEqual([
      "daemonUnavailable",
      "daemon-unreachable",
      5,
    ]);
  }
});

test("client: no answer in time → daemon-timeout", async () => {
  const { socket } = start({ ListRepos: () => new Promise(() => undefined) });
  const error = await failureOf(clientOf(socket).call("ListRepos", {}, { timeoutMs: 50 }));
  expect(error.code).toBe("daemon-timeout");
});

test("client: the caller gives up → its own reason, not a daemon error", async () => {
  const { socket } = start({ ListRepos: () => new Promise(() => undefined) });
  const stop = new AbortController();
  const call = clientOf(socket).call("ListRepos", {}, { signal: stop.signal });
  stop.abort(new Error("enough"));
  const reason: unknown = await call.catch((error: unknown) => error);
  expect(reason).toEqual(new Error("enough"));
});

test("client: something else answers on the socket → daemon-garbled", async () => {
  const socket = join(tempDir("rpc"), "web.sock");
  const web = Bun.serve({ unix: socket, fetch: () => new Response("<html>") });
  try {
    const error = await failureOf(clientOf(socket).call("ListRepos", {}));
    expect(error.code).toBe("daemon-garbled");
  } finally {
    await web.stop(true);
  }
});

test("client: connection closed in the middle of an answer → daemon-unreachable", async () => {
  const socket = join(tempDir("rpc"), "cut.sock");
  const listener = Bun.listen({
    unix: socket,
    socket: { data: (connection) => void connection.end() },
  });
  try {
    const error = await failureOf(clientOf(socket).call("ListRepos", {}));
    expect(error.code).toBe("daemon-unreachable");
  } finally {
    listener.stop(true);
  }
});

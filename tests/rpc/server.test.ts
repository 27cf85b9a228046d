/** What any HTTP client sees of the daemon: limits, errors, versions, held requests, the end. */
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { fail } from "../../src/core/errors.ts";
import { MAX_BODY_BYTES } from "../../src/rpc/contract/method.ts";
import { removeTempDirs } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";
import {
  errorOf,
  TOY_VERSION,
  toyServer,
  type Toy,
  type ToyHandler,
} from "../support/toy-server.ts";

afterAll(removeTempDirs);

const running: Toy[] = [];
afterEach(async () => {
  for (const toy of running.splice(0)) await toy.server.stop(0);
});

function start(...args: Parameters<typeof toyServer>): Toy {
  const toy = toyServer(...args);
  running.push(toy);
  return toy;
}

const status = {
  version: "1.2.3",
  build: "b",
  pid: 1,
  startedAt: "2030-01-01T00:00:00.000Z",
  stateDir: "/s",
  socket: "/s/kkd.sock",
  repos: 0,
  watching: [],
};
const echo: ToyHandler = (input) => ({ threads: [], input }) as unknown;

describe("rpc server: input", () => {
  test("missing field: nested → 400 naming its path", async () => {
    const { post } = start({ GetThreadState: echo });
    const answer = await post("GetThreadState", '{"repo":{}}');
    expect(answer.status).toBe(400);
    expect(await errorOf(answer)).toMatchObject({
      kind: "usage",
      code: "bad-field",
      message: 'GetThreadState: missing field "thread"',
    });
  });

  test("wrong type → 400 naming the field, one line", async () => {
    const { post } = start({ RepoThreadSummaries: echo });
    const answer = await post("RepoThreadSummaries", '{"repo":{"repoId":7},"closed":false}');
    expect(answer.status).toBe(400);
    const { message } = await errorOf(answer);
    expect(message).toContain('field "repo.repoId"');
    expect(String(message)).not.toContain("\n");
  });

  test("not JSON, or JSON that is no object → 400 saying so", async () => {
    const { post } = start({ DaemonStatus: () => status });
    expect(await errorOf(await post("DaemonStatus", "{oops"))).toMatchObject({ code: "bad-json" });
    expect(await errorOf(await post("DaemonStatus", "[1]"))).toMatchObject({ code: "bad-field" });
  });

  test("unknown fields → ignored, and no handler sees them", async () => {
    let seen: unknown;
    const { post } = start({
      DaemonShutdown: (input) => {
        seen = input;
        return { pid: 1, stopping: false };
      },
    });
    const answer = await post("DaemonShutdown", '{"reason":"r","fromTheFuture":{"x":1}}');
    expect(answer.status).toBe(200);
    expect(seen).toEqual({ reason: "r" });
  });

  test("empty body → an empty object", async () => {
    const { post } = start({ DaemonStatus: () => status });
    expect((await post("DaemonStatus", null)).status).toBe(200);
  });

  test("unknown method, wrong verb → 404, 405", async () => {
    const toy = start({});
    const unknown = await toy.post("NoSuchThing", "{}");
    expect(unknown.status).toBe(404);
    expect(await errorOf(unknown)).toMatchObject({ code: "unknown-method" });
    const inherited = await toy.post("toString", "{}");
    expect(inherited.status).toBe(404);
    const get = await fetch("http://kiki/v1/DaemonStatus", { unix: toy.socket });
    expect(get.status).toBe(405);
  });
});

describe("rpc server: limits", () => {
  const oversized = JSON.stringify({ reason: "x".repeat(MAX_BODY_BYTES) });

  test("body over the method's limit, length declared → 413 that explains itself", async () => {
    const { post } = start({ DaemonShutdown: () => ({ pid: 1, stopping: false }) });
    const answer = await post("DaemonShutdown", oversized);
    expect(answer.status).toBe(413);
    expect(await errorOf(answer)).toMatchObject({ code: "body-too-large" });
  });

  test("body over the limit, sent in chunks of unknown total → 413", async () => {
    const { post } = start({ DaemonShutdown: () => ({ pid: 1, stopping: false }) });
    const chunk = new Uint8Array(64 * 1024).fill(0x20);
    let left = MAX_BODY_BYTES / chunk.length + 2;
    const body = new ReadableStream({
      pull(controller) {
        if (left <= 0) return controller.close();
        left -= 1;
        controller.enqueue(chunk);
      },
    });
    expect((await post("DaemonShutdown", body)).status).toBe(413);
  });

  test("hook method: the same size → accepted", async () => {
    const { post } = start({ ReportEvent: () => ({}) });
    const body = JSON.stringify({
      incarnation: "i",
      secret: "s",
      event: { output: "x".repeat(2 * MAX_BODY_BYTES) },
    });
    expect((await post("ReportEvent", body)).status).toBe(200);
  });
});

describe("rpc server: answers", () => {
  test("version header → on every answer, and the client's reaches the handler", async () => {
    let client: string | null = null;
    const { post } = start({
      DaemonStatus: (_, context) => {
        client = context.clientVersion;
        return status;
      },
    });
    const good = await post("DaemonStatus", "{}", { "x-kiki-version": "0.0.1" });
    const bad = await post("Nope", "{}");
    expect([good, bad].map((answer) => answer.headers.get("x-kiki-version"))).toEqual([
      TOY_VERSION,
      TOY_VERSION,
    ]);
    expect<string | null>(client).toBe("0.0.1");
  });

  test("field the contract does not declare → does not leave the daemon", async () => {
    const { post } = start({ DaemonStatus: () => ({ ...status, secret: "s3cret" }) });
    expect(await (await post("DaemonStatus", "{}")).json()).toEqual(status);
  });

  test("refused caller → the error's own status, and the handler does not run", async () => {
    let ran = false;
    const { post } = start(
      {
        ListRepos: () => {
          ran = true;
          return { repos: [] };
        },
      },
      () => fail("approval", "credential-unknown", "who are you"),
    );
    const answer = await post("ListRepos", "{}");
    expect(answer.status).toBe(403);
    expect(await errorOf(answer)).toMatchObject({ kind: "approval", code: "credential-unknown" });
    expect(ran).toBe(false);
  });

  test("failure of each kind → its HTTP status", async () => {
    const kinds = {
      usage: 400,
      approval: 403,
      notFound: 404,
      failed: 500,
      needsRepair: 409,
      daemonUnavailable: 503,
    } as const;
    let kind: keyof typeof kinds = "usage";
    const { post } = start({
      ListRepos: () => {
        throw fail(kind, "some-code", "what is wrong", "what to do");
      },
    });
    for (const [name, code] of Object.entries(kinds)) {
      kind = name as keyof typeof kinds;
      const answer = await post("ListRepos", "{}");
      expect([name, answer.status]).toEqual([name, code]);
      expect(await errorOf(answer)).toEqual({
        kind: name,
        code: "some-code",
        message: "what is wrong",
        hint: "what to do",
      });
    }
  });

  test("unexpected throw → 500 without details, one log line with them", async () => {
    const { post, logged } = start({
      ListRepos: () => {
        throw new Error("secret detail\nsecond line");
      },
    });
    const answer = await post("ListRepos", "{}");
    expect(answer.status).toBe(500);
    expect(JSON.stringify(await errorOf(answer))).not.toContain("secret detail");
    expect(logged).toEqual(["ListRepos: secret detail"]);
  });
});

describe("rpc server: held requests", () => {
  test("client hangs up → the handler's signal fires", async () => {
    let began = false;
    let aborted = false;
    const { post } = start({
      Hold: (_, context) =>
        new Promise(() => {
          began = true;
          context.signal.addEventListener("abort", () => {
            aborted = true;
          });
        }),
    });
    const hangUp = new AbortController();
    const body = '{"incarnation":"i","secret":"s","token":"t"}';
    const held = post("Hold", body, {}, hangUp.signal).catch(() => "hung up");
    await waitFor(() => began, 2000, "the held request reaches its handler");
    hangUp.abort();
    await held;
    await waitFor(() => aborted, 2000, "the handler is told");
    expect(aborted).toBe(true);
  });

  test("held for a second → answered on the same connection", async () => {
    const { post } = start({
      Hold: async () => {
        await Bun.sleep(1000);
        return { decision: "pass" };
      },
    });
    const answer = await post("Hold", '{"incarnation":"i","secret":"s","token":"t"}');
    expect(await answer.json()).toEqual({ decision: "pass" });
  });
});

describe("rpc server: stop", () => {
  test("running request → finished before the socket goes; new ones are refused", async () => {
    const gate = Promise.withResolvers<void>();
    let began = false;
    const toy = start({
      ListRepos: async () => {
        began = true;
        await gate.promise;
        return { repos: [] };
      },
    });
    const slow = toy.post("ListRepos", "{}");
    await waitFor(() => began, 2000, "the slow request runs");
    const stopped = toy.server.stop(5000);
    const late = await toy.post("DaemonStatus", "{}");
    expect(late.status).toBe(503);
    expect(await errorOf(late)).toMatchObject({ code: "daemon-stopping" });
    gate.resolve();
    expect(await (await slow).json()).toEqual({ repos: [] });
    await stopped;
    expect(existsSync(toy.socket)).toBe(false);
  });

  test("pure wait → told at once by `stopping`; a stuck one is aborted after the drain", async () => {
    let waits = 0;
    const toy = start({
      GetLifecycleOperation: (_, context) =>
        new Promise((_resolve, reject) => {
          waits += 1;
          context.stopping.addEventListener("abort", () =>
            reject(context.stopping.reason as Error),
          );
        }),
      Hold: (_, context) =>
        new Promise((_resolve, reject) => {
          waits += 1;
          context.signal.addEventListener("abort", () => reject(context.signal.reason as Error));
        }),
    });
    const wait = toy.post(
      "GetLifecycleOperation",
      '{"repoId":"r","operationId":"o","seen":"","waitMs":30000}',
    );
    const hold = toy.post("Hold", '{"incarnation":"i","secret":"s","token":"t"}');
    await waitFor(() => waits === 2, 2000, "both requests are held");
    await toy.server.stop(50);
    expect([(await wait).status, (await hold).status]).toEqual([503, 503]);
  });
});

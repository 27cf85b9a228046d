/** kk-hook as its launcher sees it: exit code, stdout, and what it leaves on disk, against a toy daemon. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { dlopen } from "bun:ffi";
import { genericDenyOutput } from "../../src/core/generic-deny.ts";
import {
  CREDENTIAL,
  HookBox,
  hookCommand,
  INCARNATION,
  preToolUse,
  runProgram,
  SECRET,
  type Received,
} from "../support/hook-runner.ts";
import { waitFor } from "../support/wait.ts";

const PASS = 10;
const DENY = 11;
/** Generous: the bound that matters is that the hook ends at all; the machine may be busy. */
const SOON_MS = 4_000;
const WAIT_MS = 10_000;

let box: HookBox;
beforeEach(() => {
  box = new HookBox();
});
afterEach(async () => {
  await box.close();
});

const json = (value: unknown, status = 200): Response => Response.json(value, { status });
const pass = (): Response => json({ decision: "pass" });

/** Answers by method, everything else with `{}`. */
function answers(table: Record<string, (request: Received) => Response | Promise<Response>>) {
  return (request: Received) => table[request.method.replace("/v1/", "")]?.(request) ?? json({});
}

describe("PreToolUse, daemon answers", () => {
  test("pass → exit 10, nothing printed, one identified request", async () => {
    box.serve(pass);
    const payload = preToolUse("toolu_1");
    const result = await box.run("PreToolUse", payload);
    expect([result.code, result.stdout]).toEqual([PASS, ""]);
    expect(box.received).toEqual([
      {
        method: "/v1/PreToolUseDecision",
        authorization: `Kiki ${CREDENTIAL}`,
        body: `{"incarnation":"${INCARNATION}","secret":"${SECRET}","event":${payload}}`,
      },
    ]);
    expect(box.names("passed")).toEqual([]);
  });

  test("deny → the output byte for byte, exit 11", async () => {
    const output = '{"hookSpecificOutput":{"x":"é 🚀 \\u0000 \\n"}}';
    box.serve(() => json({ decision: "deny", output }));
    const result = await box.run("PreToolUse", preToolUse("toolu_1"));
    expect([result.code, result.stdout]).toEqual([DENY, output]);
    expect(box.received.map((r) => r.method)).toEqual(["/v1/PreToolUseDecision"]);
  });

  test("deny with a delivery → MarkDelivered after the output", async () => {
    const delivered = { intentId: "intent-1", turn: 3, batch: 4 };
    box.serve(
      answers({ PreToolUseDecision: () => json({ decision: "deny", output: "{}", delivered }) }),
    );
    const result = await box.run("PreToolUse", preToolUse("toolu_1"));
    expect([result.code, result.stdout]).toEqual([DENY, "{}"]);
    expect(box.received.map((r) => r.method)).toEqual([
      "/v1/PreToolUseDecision",
      "/v1/MarkDelivered",
    ]);
    expect(JSON.parse(box.received[1]?.body ?? "")).toEqual({
      incarnation: INCARNATION,
      secret: SECRET,
      ...delivered,
    });
  });

  test("deny, MarkDelivered never answered → still exit 11 with the output", async () => {
    box.serve(
      answers({
        PreToolUseDecision: () =>
          json({
            decision: "deny",
            output: "{}",
            delivered: { intentId: "i", turn: 1, batch: 1 },
          }),
        MarkDelivered: () => new Promise<Response>(() => undefined),
      }),
    );
    const result = await box.run("PreToolUse", preToolUse("toolu_1"));
    expect([result.code, result.stdout]).toEqual([DENY, "{}"]);
    expect(result.ms).toBeLessThan(SOON_MS);
  });

  test("refused (4xx) → deny with the daemon's message, no passed file", async () => {
    box.serve(() =>
      json(
        {
          error: {
            kind: "approval",
            code: "hook-secret",
            message: "unknown hook",
            hint: "restart it",
          },
        },
        403,
      ),
    );
    const result = await box.run("PreToolUse", preToolUse("toolu_1"));
    expect(result.code).toBe(DENY);
    const reason = verdictReason(result.stdout);
    expect(reason).toStartWith("[kiki] ");
    expect(reason).toContain("unknown hook; restart it");
    expect(box.names("passed")).toEqual([]);
  });

  test("server error (5xx) → outage path", async () => {
    box.serve(() => json({ error: { message: "boom" } }, 500));
    const result = await box.run("PreToolUse", preToolUse("toolu_1"));
    expect([result.code, result.stdout]).toEqual([PASS, ""]);
    expect(box.names("passed")).toHaveLength(1);
    expect(box.errorLines().join()).toContain("HTTP 500");
  });

  test("an answer that is none → outage path", async () => {
    for (const body of ["", "nonsense", "[]", '{"decision":"maybe"}']) {
      await box.close();
      box = new HookBox();
      box.serve(() => new Response(body));
      const result = await box.run("PreToolUse", preToolUse("toolu_1"));
      expect([body, result.code, box.names("passed").length]).toEqual([body, PASS, 1]);
    }
  });

  test("secret missing or not plain → sent empty, never spliced in", async () => {
    box.serve(() => json({ error: { message: "no secret" } }, 403));
    for (const secret of ["", '","x":"', "zz"]) {
      await box.run("PreToolUse", preToolUse("toolu_1"), { KIKI_INCARNATION_SECRET: secret });
      expect(JSON.parse(box.received.at(-1)?.body ?? "")).toMatchObject({ secret: "" });
    }
  });
});

describe("PreToolUse, hold", () => {
  const hold = () => json({ decision: "hold", token: "token-1", holdMs: 5_000 });

  test("hold, then deny → Hold asked at once with the token, output printed", async () => {
    box.serve(
      answers({
        PreToolUseDecision: hold,
        Hold: () =>
          json({ decision: "deny", output: "{}", delivered: { intentId: "i", turn: 1, batch: 2 } }),
      }),
    );
    const result = await box.run("PreToolUse", preToolUse("toolu_1"));
    expect([result.code, result.stdout]).toEqual([DENY, "{}"]);
    expect(box.received.map((r) => r.method)).toEqual([
      "/v1/PreToolUseDecision",
      "/v1/Hold",
      "/v1/MarkDelivered",
    ]);
    expect(JSON.parse(box.received[1]?.body ?? "")).toEqual({
      incarnation: INCARNATION,
      secret: SECRET,
      token: "token-1",
    });
  });

  test("hold, released later → exit 10 only after the release", async () => {
    let release: (response: Response) => void = () => undefined;
    const released = new Promise<Response>((resolve) => (release = resolve));
    box.serve(answers({ PreToolUseDecision: hold, Hold: () => released }));
    let ended = false;
    const running = box.run("PreToolUse", preToolUse("toolu_1")).finally(() => (ended = true));
    await waitFor(() => box.received.length === 2, WAIT_MS, "Hold asked");
    expect(ended).toBe(false);
    release(pass());
    expect((await running).code).toBe(PASS);
  });

  test("hold, then an error or an unclear answer → generic deny", async () => {
    const ends: Record<string, () => Response> = {
      "server error": () => json({ error: { message: "x" } }, 500),
      refused: () => json({ error: { message: "x" } }, 404),
      unclear: () => json({ decision: "maybe" }),
      "hold again": hold,
    };
    for (const [name, end] of Object.entries(ends)) {
      await box.close();
      box = new HookBox();
      box.serve(answers({ PreToolUseDecision: hold, Hold: end }));
      const result = await box.run("PreToolUse", preToolUse("toolu_1"));
      expect([name, result.code, result.stdout]).toEqual([name, DENY, genericDenyOutput()]);
      expect(box.names("passed")).toEqual([]);
    }
  });

  test("hold, daemon killed while it waits → generic deny", async () => {
    const daemon = await startDaemonProcess(box);
    const running = box.run("PreToolUse", preToolUse("toolu_1"));
    await waitFor(() => existsSync(join(box.root, "held")), WAIT_MS, "Hold asked");
    daemon.kill("SIGKILL");
    const result = await running;
    await daemon.exited;
    expect([result.code, result.stdout]).toEqual([DENY, genericDenyOutput()]);
  });

  test("hold, no answer up to the limit → generic deny", async () => {
    box.serve(
      answers({
        PreToolUseDecision: () => json({ decision: "hold", token: "t", holdMs: 100 }),
        Hold: () => new Promise<Response>(() => undefined),
      }),
    );
    const result = await box.run("PreToolUse", preToolUse("toolu_1"));
    expect([result.code, result.stdout]).toEqual([DENY, genericDenyOutput()]);
    expect(result.ms).toBeLessThan(SOON_MS);
  });
});

describe("PreToolUse, outage", () => {
  test("no daemon, no barrier → pass, payload in passed/, one line logged", async () => {
    const payload = preToolUse("toolu_42", {
      tool_input: { command: 'echo "tool_use_id":"fake"' },
    });
    const result = await box.run("PreToolUse", payload);
    expect([result.code, result.stdout]).toEqual([PASS, ""]);
    const names = box.names("passed");
    expect(names).toHaveLength(1);
    expect(names[0]).toMatch(new RegExp(`^${INCARNATION}\\.\\d+$`));
    expect(box.read("passed", names[0] ?? "")).toBe(payload);
    expect(statSync(join(box.path("passed"), names[0] ?? "")).mode & 0o777).toBe(0o600);
    expect(box.errorLines()).toHaveLength(1);
    expect(box.errorLines()[0]).toMatch(
      /^\d{4}-\d\d-\d\dT[\d:.]+Z PreToolUse toolu_42 passed without asking: daemon: unreachable$/,
    );
  });

  test("no daemon, barrier up → generic deny, no passed file left, nothing logged", async () => {
    box.raiseBarrier();
    const result = await box.run("PreToolUse", preToolUse("toolu_1"));
    expect([result.code, result.stdout]).toEqual([DENY, genericDenyOutput()]);
    expect(box.names("passed")).toEqual([]);
    expect(box.errorLines()).toEqual([]);
  });

  test("several calls → a passed file each", async () => {
    const first = await box.run("PreToolUse", preToolUse("toolu_1"));
    expect(first.code).toBe(PASS);
    await Promise.all([1, 2, 3].map(() => box.run("PreToolUse", preToolUse("toolu_2"))));
    expect(box.names("passed")).toHaveLength(4);
  });

  test("daemon stopped (SIGSTOP) → answer within the budget, recorded", async () => {
    const daemon = await startDaemonProcess(box);
    daemon.kill("SIGSTOP");
    try {
      const result = await box.run("PreToolUse", preToolUse("toolu_1"));
      expect(result.code).toBe(PASS);
      expect(result.ms).toBeLessThan(SOON_MS);
      expect(box.names("passed")).toHaveLength(1);
      expect(box.errorLines().join()).toContain("no answer");
    } finally {
      daemon.kill("SIGKILL");
      await daemon.exited;
    }
  });

  test("socket whose backlog is full → does not hang", async () => {
    const closeSocket = listenWithFullBacklog(box.socket);
    try {
      const result = await box.run("PreToolUse", preToolUse("toolu_1"));
      expect(result.code).toBe(PASS);
      expect(result.ms).toBeLessThan(SOON_MS);
    } finally {
      closeSocket();
    }
  });

  test("300 KB to a stopped daemon → does not hang while sending", async () => {
    const daemon = await startDaemonProcess(box);
    daemon.kill("SIGSTOP");
    try {
      const result = await box.run("PreToolUse", preToolUse("t", { big: "x".repeat(300_000) }));
      expect([result.code, box.names("passed").length]).toEqual([PASS, 1]);
    } finally {
      daemon.kill("SIGKILL");
      await daemon.exited;
    }
  });

  test("passed folder cannot be made → still pass, the log says so", async () => {
    writeFileSync(box.path("file"), "");
    const result = await box.run("PreToolUse", preToolUse("toolu_1"), {
      KIKI_HOOK_PASSED: join(box.path("file"), "passed"),
    });
    expect(result.code).toBe(PASS);
    expect(box.errorLines().join()).toContain("not recorded");
  });

  test("standard input that never ends → outage path within the budget", async () => {
    box.serve(pass);
    const child = Bun.spawn([...hookCommand(), "PreToolUse"], {
      cwd: box.root,
      env: box.env,
      stdin: "pipe",
      stdout: "pipe",
      stderr: "ignore",
    });
    void child.stdin.write('{"tool_use_id":"toolu_1"');
    await child.stdin.flush();
    expect(await child.exited).toBe(PASS);
    expect(box.received).toEqual([]);
    expect(box.names("passed")).toHaveLength(1);
  });

  test("no daemon → started once for many hooks, with nothing of the harness in its environment", async () => {
    const kk = join(box.root, "kk");
    const starts = join(box.root, "starts");
    writeFileSync(kk, `#!/bin/sh\n{ echo "$@"; env; } > "${starts}.$$"\n`);
    chmodSync(kk, 0o700);
    const env = { KIKI_BIN: kk, CLAUDECODE: "1", TMUX: "x" };
    await Promise.all([1, 2, 3, 4].map(() => box.run("PreToolUse", preToolUse("t"), env)));
    await box.run("Stop", "{}", env);
    const glob = new Bun.Glob("starts.*");
    await waitFor(() => [...glob.scanSync(box.root)].length > 0, WAIT_MS, "daemon started");
    const started = [...glob.scanSync(box.root)];
    expect(started).toHaveLength(1);
    await waitFor(() => statSync(join(box.root, started[0] ?? "")).size > 0, WAIT_MS, "stub wrote");
    const text = await Bun.file(join(box.root, started[0] ?? "")).text();
    expect(text).toStartWith("__start-daemon\n");
    expect(text).toContain(`KIKI_PATHS__USER_STATE_DIR=${box.env["KIKI_PATHS__USER_STATE_DIR"]}`);
    expect(text).not.toMatch(/^(?:CLAUDECODE|TMUX|KIKI_INCARNATION|KIKI_AS)/m);
  });
});

describe("payload", () => {
  test("300 KB, any unicode → arrives byte for byte", async () => {
    const text = `é 🚀 \u2028 日本語 \\u0000 "quotes"`.repeat(8_000);
    const payload = preToolUse("toolu_1", { tool_input: { content: text } });
    expect(Buffer.byteLength(payload)).toBeGreaterThan(300_000);
    box.serve(pass);
    const result = await box.run("PreToolUse", payload);
    expect(result.code).toBe(PASS);
    const body = box.received[0]?.body ?? "";
    const head = `{"incarnation":"${INCARNATION}","secret":"${SECRET}","event":`;
    expect(body.slice(0, head.length)).toBe(head);
    expect(body.slice(head.length, -1) === payload).toBe(true);
  });

  test("around every buffer boundary → arrives whole", async () => {
    box.serve(pass);
    const base = Buffer.byteLength(preToolUse("t", { pad: "" }));
    for (const size of [4095, 65_535 - 1024, 64_512, 65_536, 131_072 - 1025]) {
      const payload = preToolUse("t", { pad: "p".repeat(size - base) });
      await box.run("PreToolUse", payload);
      expect(box.received.at(-1)?.body.endsWith(`${payload.slice(-20)}}`)).toBe(true);
      expect(box.received.at(-1)?.body.length).toBe(
        `{"incarnation":"${INCARNATION}","secret":"${SECRET}","event":}`.length + size,
      );
    }
  });
});

describe("other events", () => {
  test("daemon takes it → exit 10, one ReportEvent, nothing spooled", async () => {
    box.serve(() => json({}));
    const result = await box.run("PostToolUse", '{"a":1}');
    expect([result.code, result.stdout]).toEqual([PASS, ""]);
    expect(box.received.map((r) => r.method)).toEqual(["/v1/ReportEvent"]);
    expect(box.names("spool")).toEqual([]);
  });

  test("no daemon, or no answer in time → spooled whole, exit 10", async () => {
    const event = '{"hook_event_name":"Stop","text":"é🚀"}';
    expect((await box.run("Stop", event)).code).toBe(PASS);
    box.serve(() => new Promise<Response>(() => undefined));
    const slow = await box.run("Notification", event);
    expect(slow.code).toBe(PASS);
    expect(slow.ms).toBeLessThan(SOON_MS);
    const names = box.names("spool");
    expect(names).toHaveLength(2);
    for (const name of names) {
      expect(name).toMatch(/^\d{15}-\d+-0\.json$/);
      expect(statSync(join(box.path("spool"), name)).mode & 0o777).toBe(0o600);
      expect(JSON.parse(box.read("spool", name))).toEqual({
        incarnation: INCARNATION,
        secret: SECRET,
        event: JSON.parse(event),
      });
    }
    expect(box.names("passed")).toEqual([]);
  });

  test("UserPromptSubmit → waits while the daemon makes it wait", async () => {
    box.serve(async () => {
      await Bun.sleep(900); // longer than any other event may take
      return json({});
    });
    expect((await box.run("UserPromptSubmit", "{}")).code).toBe(PASS);
    expect(box.names("spool")).toEqual([]);
  });

  test("later prompts of a greeted incarnation, daemon stopped → no longer than any event, spooled", async () => {
    let greeted = false;
    box.serve(async () => {
      if (greeted) await Bun.sleep(5_000);
      return json({});
    });
    expect((await box.run("UserPromptSubmit", "{}")).code).toBe(PASS);
    greeted = true;
    for (const env of [{}, { BUN_JSC_useJIT: "0" }]) {
      for (const event of ["UserPromptSubmit", "SessionStart"]) {
        const result = await box.run(event, "{}", env);
        expect(result.code).toBe(PASS);
        expect(result.ms).toBeLessThan(SOON_MS);
      }
    }
    expect(box.names("spool")).toHaveLength(4);
    // Another start of the agent waits for its own ready transaction again.
    greeted = false;
    const next = { KIKI_INCARNATION: INCARNATION.replaceAll("1", "9") };
    expect((await box.run("UserPromptSubmit", "{}", next)).code).toBe(PASS);
    expect(readFileSync(box.path("greeted"), "utf8")).toBe(`${next.KIKI_INCARNATION}\n`);
  });

  test("PostToolBatch → waits longer exactly while the barrier is up", async () => {
    box.serve(async () => {
      await Bun.sleep(900);
      return json({});
    });
    await box.run("PostToolBatch", "{}");
    expect(box.names("spool")).toHaveLength(1);
    box.raiseBarrier();
    await box.run("PostToolBatch", "{}");
    expect(box.names("spool")).toHaveLength(1);
  });

  test("refused → not spooled, logged, exit 10", async () => {
    box.serve(() => json({ error: { message: "not this incarnation" } }, 403));
    expect((await box.run("Stop", "{}")).code).toBe(PASS);
    expect(box.names("spool")).toEqual([]);
    expect(box.errorLines().join()).toContain("event refused: not this incarnation");
  });
});

describe("without libc calls", () => {
  // Bun without its JIT cannot load libraries through bun:ffi (1.4.5).
  const env = { BUN_JSC_useJIT: "0" };

  test("pass, deny, hold, outage → as with them", async () => {
    const payload = preToolUse("toolu_1", { text: "é🚀" });
    let decision: unknown = { decision: "pass" };
    box.serve(
      answers({
        PreToolUseDecision: () => json(decision),
        Hold: () => json({ decision: "deny", output: '{"held":"é"}' }),
      }),
    );
    expect((await box.run("PreToolUse", payload, env)).code).toBe(PASS);
    expect(box.received[0]).toEqual({
      method: "/v1/PreToolUseDecision",
      authorization: `Kiki ${CREDENTIAL}`,
      body: `{"incarnation":"${INCARNATION}","secret":"${SECRET}","event":${payload}}`,
    });
    decision = {
      decision: "deny",
      output: '{"x":"é"}',
      delivered: { intentId: "i", turn: 1, batch: 1 },
    };
    const denied = await box.run("PreToolUse", payload, env);
    expect([denied.code, denied.stdout]).toEqual([DENY, '{"x":"é"}']);
    expect(box.received.at(-1)?.method).toBe("/v1/MarkDelivered");
    decision = { decision: "hold", token: "t", holdMs: 1000 };
    const held = await box.run("PreToolUse", payload, env);
    expect([held.code, held.stdout]).toEqual([DENY, '{"held":"é"}']);
    expect(box.names("passed")).toEqual([]);
  });

  test("no daemon → pass and record, or generic deny under a barrier; events spooled", async () => {
    expect((await box.run("PreToolUse", preToolUse("t"), env)).code).toBe(PASS);
    expect(box.names("passed")).toHaveLength(1);
    expect((await box.run("Stop", "{}", env)).code).toBe(PASS);
    expect(box.names("spool")).toHaveLength(1);
    box.raiseBarrier();
    const barred = await box.run("PreToolUse", preToolUse("t"), env);
    expect([barred.code, barred.stdout]).toEqual([DENY, genericDenyOutput()]);
    expect(box.names("passed")).toHaveLength(1);
  });
});

function verdictReason(stdout: string): string {
  const verdict = JSON.parse(stdout) as {
    hookSpecificOutput: { permissionDecision: string; permissionDecisionReason: string };
  };
  expect(verdict.hookSpecificOutput.permissionDecision).toBe("deny");
  return verdict.hookSpecificOutput.permissionDecisionReason;
}

/** A daemon in a process of its own, which can be stopped and killed; holds every call. */
async function startDaemonProcess(on: HookBox) {
  const script = join(on.root, "daemon.ts");
  writeFileSync(
    script,
    `import { writeFileSync } from "node:fs";
     Bun.serve({ unix: ${JSON.stringify(on.socket)}, idleTimeout: 0, fetch(request) {
       if (!request.url.endsWith("/Hold")) return Response.json({ decision: "hold", token: "t", holdMs: 20000 });
       writeFileSync(${JSON.stringify(join(on.root, "held"))}, "");
       return new Promise(() => undefined);
     } });`,
  );
  const daemon = Bun.spawn([process.execPath, script], {
    env: { ...on.env, KIKI_AS: "" },
    stdio: ["ignore", "ignore", "ignore"],
  });
  await waitFor(() => existsSync(on.socket), WAIT_MS, "toy daemon listens");
  // The socket file exists a moment before it is listened on.
  const probe = () =>
    runProgram(
      [process.execPath, "-e", `await fetch("http://x/", { unix: ${JSON.stringify(on.socket)} })`],
      "",
      on.env,
      on.root,
    );
  expect((await probe()).code).toBe(0);
  return daemon;
}

/** Listens without ever accepting, with its backlog used up. */
function listenWithFullBacklog(path: string): () => void {
  const mac = process.platform === "darwin";
  const { symbols: c } = dlopen(mac ? "libSystem.B.dylib" : "libc.so.6", {
    socket: { args: ["int", "int", "int"], returns: "int" },
    bind: { args: ["int", "buffer", "int"], returns: "int" },
    listen: { args: ["int", "int"], returns: "int" },
    connect: { args: ["int", "buffer", "int"], returns: "int" },
    close: { args: ["int"], returns: "int" },
  });
  const address = Buffer.alloc(mac ? 106 : 110);
  address.writeUInt8(1, mac ? 1 : 0);
  address.write(path, 2);
  const listener = c.socket(1, 1, 0);
  expect(c.bind(listener, address, address.length)).toBe(0);
  // With a backlog of 0 Linux queues one connection.
  expect(c.listen(listener, 0)).toBe(0);
  const client = c.socket(1, 1, 0);
  expect(c.connect(client, address, address.length)).toBe(0);
  return () => {
    c.close(client);
    c.close(listener);
  };
}

/** The presenter's side of an approval: what is shown, what each answer leads to, and what is begun anew. */
import { removeTempDirs } from "../support/temp.ts";
import { afterAll, afterEach, describe, expect, spyOn, test } from "bun:test";
import { approvedCall, readOrAsk, type Asking, type Desk } from "../../src/cmd/approved-call.ts";
import type { Answer } from "../../src/cmd/terminal.ts";
import { fail, KikiError } from "../../src/core/errors.ts";
import { displayWidth } from "../../src/core/render/width.ts";
import { makeClient } from "../../src/rpc/client.ts";
import type { MethodName } from "../../src/rpc/contract/methods.ts";
import type { Plan } from "../../src/rpc/contract/types.ts";
import { toyServer, type Toy, type ToyHandler } from "../support/toy-server.ts";

const TEXT = "Register a repository\n\n  folder     /home/you/work/shop\n";
const DIGEST = "3f2a9c0d1e2f".padEnd(64, "0");
const CHALLENGE = "6b0f1f6e-1111-4222-8333-444455556666";
const APPROVAL = "7c1a2b3c-1111-4222-8333-444455556666";
const NONCE = "ab".repeat(32);
const FOLDER = "/home/you/work/shop";
const ASKING: Asking = { asked: `register the repository at ${FOLDER}`, json: false };
const YES: Answer = { kind: "line", text: "y" };
const NO: Answer = { kind: "line", text: "n" };
const REPO = {
  repoId: "r",
  path: FOLDER,
  registeredAt: "2026-01-01T00:00:00.000Z",
  colocated: true,
  stateDb: "/s/state.db",
  activeThreads: 0,
  closedThreads: 0,
};

function planOf(over: Partial<Plan> = {}): Plan {
  return {
    method: "RegisterRepo",
    text: TEXT,
    digest: DIGEST,
    challenge: {
      challengeId: CHALLENGE,
      repoId: null,
      nonce: NONCE,
      expiresAt: "2026-01-01T00:02:00.000Z",
      expiresInMs: 119_950,
    },
    refusal: null,
    ...over,
  };
}
const refused = (code: string): Plan =>
  planOf({ challenge: null, refusal: { code, message: `refused: ${code}`, hint: "do this" } });

interface Stage {
  toy: Toy;
  calls: { method: string; input: Record<string, unknown>; from: "ordinary" | "presenter" }[];
  /** Everything on the terminal. */
  screen: () => string;
  notes: string[];
  wakes: () => number;
  enrolments: () => number;
  desk: Desk;
  register: (asking?: Asking) => Promise<unknown>;
}

const toys: Toy[] = [];
afterAll(removeTempDirs);
afterEach(async () => {
  for (const toy of toys.splice(0)) await toy.server.stop(1_000);
});

/** A toy daemon and a terminal on which `answers` are given one after the other. */
function stage(
  table: Partial<Record<MethodName, ToyHandler>>,
  answers: readonly Answer[] | null,
  over: { columns?: number; presenter?: boolean; desk?: Partial<Desk> } = {},
): Stage {
  const calls: Stage["calls"] = [];
  const all: Partial<Record<MethodName, ToyHandler>> = {
    BeginApproval: () => planOf(),
    ConfirmApproval: () => ({ approval: APPROVAL, expiresAt: "2026-01-01T00:02:00.000Z" }),
    CancelApproval: () => ({}),
    RegisterRepo: () => ({ repo: REPO, created: true }),
    ...table,
  };
  const recorded = Object.entries(all).map(([name, handler]) => [
    name,
    (input: never, context: Parameters<ToyHandler>[1]) => {
      const from = context.clientVersion === "presenter" ? "presenter" : "ordinary";
      calls.push({ method: name, input, from });
      return handler(input, context);
    },
  ]);
  const toy = toyServer(Object.fromEntries(recorded));
  toys.push(toy);
  const { socket } = toy;
  const client = makeClient({ socket, credential: null, clientVersion: "ordinary" });
  const presenter = makeClient({ socket, credential: null, clientVersion: "presenter" });
  let screen = "";
  const notes: string[] = [];
  const left = [...(answers ?? [])];
  let [wakes, enrolments, enrolled] = [0, 0, over.presenter !== false];
  const desk: Desk = {
    pid: 4711,
    terminal: () =>
      answers === null
        ? null
        : {
            columns: over.columns ?? 80,
            write: (text) => void (screen += text),
            ask(question) {
              screen += question;
              const answer = left.shift();
              if (answer === undefined) throw new Error("one question too many");
              return Promise.resolve(answer);
            },
            close: () => {},
          },
    presenter: () => (enrolled ? presenter : null),
    async enrol() {
      enrolments += 1;
      enrolled = true;
    },
    async wake() {
      wakes += 1;
    },
    note: (text) => void notes.push(text),
    lost: () => fail("approval", "presenter-lost", "lost", "kk presenter recover"),
    interrupted: () => Promise.reject(new Error("interrupted")),
    ...over.desk,
  };
  return {
    toy,
    calls,
    screen: () => screen,
    notes,
    wakes: () => wakes,
    enrolments: () => enrolments,
    desk,
    register: (asking = ASKING) =>
      approvedCall({ client, stateDir: "/s" }, "RegisterRepo", { folder: FOLDER }, asking, desk),
  };
}

test("daemon is stopping when the yes is to be used → waited for, and used with the next one", async () => {
  let refusals = 0;
  const s = stage(
    {
      RegisterRepo() {
        refusals += 1;
        if (refusals > 1) return { repo: REPO, created: true };
        throw fail("daemonUnavailable", "daemon-stopping", "the daemon is stopping", "try again");
      },
    },
    [YES],
  );
  expect(await s.register()).toMatchObject({ created: true });
  expect([s.wakes(), s.calls.at(-1)!.input["approval"]]).toEqual([1, APPROVAL]);
});

test("thread's credential replaced while the plan was read → asked again with the new one", async () => {
  let calls = 0;
  const s = stage(
    {
      RegisterRepo() {
        calls += 1;
        if (calls > 1) return { repo: REPO, created: true };
        throw fail("approval", "approval-other-caller", "given to somebody else");
      },
    },
    [YES, YES],
  );
  expect(await s.register()).toMatchObject({ created: true });
  expect(s.notes).toHaveLength(1);
});

const names = (s: Stage): string[] => s.calls.map((call) => call.method);
const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "no error",
    (error: unknown) => (error instanceof KikiError ? error.code : String(error)),
  );

async function stdoutOf(run: () => Promise<unknown>): Promise<string> {
  const spy = spyOn(console, "log").mockImplementation(() => {});
  try {
    await run();
    return spy.mock.calls.flat().join("\n");
  } finally {
    spy.mockRestore();
  }
}

describe("answers", () => {
  test("yes → confirmed by the presenter, then exactly the call that was asked for, with the approval", async () => {
    const s = stage({}, [YES]);
    expect(await s.register()).toEqual({ repo: REPO, created: true });
    const challenge = { challengeId: CHALLENGE, repoId: null, nonce: NONCE, clientPid: 4711 };
    expect(s.calls).toEqual([
      {
        method: "BeginApproval",
        from: "ordinary",
        input: { method: "RegisterRepo", args: { folder: FOLDER }, clientPid: 4711, columns: 80 },
      },
      { method: "ConfirmApproval", from: "presenter", input: challenge },
      { method: "RegisterRepo", from: "ordinary", input: { folder: FOLDER, approval: APPROVAL } },
    ]);
  });

  test.each([
    ["n", NO],
    ["empty line", { kind: "line", text: "" } as const],
    ["half a word", { kind: "line", text: "ye" } as const],
    ["Ctrl-D", { kind: "end" } as const],
  ])("%s → challenge cancelled, nothing done, exit 4", async (_, answer) => {
    const s = stage({}, [answer]);
    const error = await s.register().catch((thrown: unknown) => thrown as KikiError);
    expect(error).toMatchObject({ code: "approval-refused", exitCode: 4 });
    expect(names(s)).toEqual(["BeginApproval", "CancelApproval"]);
    expect(s.calls[1]).toMatchObject({
      from: "presenter",
      input: { challengeId: CHALLENGE, nonce: NONCE, clientPid: 4711 },
    });
  });

  test("Ctrl-C → challenge cancelled first, then the process ends as interrupted", async () => {
    const s = stage({}, [{ kind: "interrupted" }]);
    expect(await codeOf(s.register())).toBe("Error: interrupted");
    expect(names(s)).toEqual(["BeginApproval", "CancelApproval"]);
  });

  test("no, and the challenge cannot be cancelled → still a plain no", async () => {
    const cancel = (): never => {
      throw fail("approval", "challenge-expired", "too late");
    };
    expect(await codeOf(stage({ CancelApproval: cancel }, [NO]).register())).toBe(
      "approval-refused",
    );
  });
});

describe("what is shown", () => {
  test("plan byte for byte, then what was asked for, digest and expiry, then the question", async () => {
    const s = stage({}, [YES]);
    await s.register();
    expect(s.screen()).toBe(
      `${TEXT}\nAsked for: register the repository at /home/you/work/shop\n` +
        "Digest 3f2a9c0d1e2f, expires in 2 minutes.\nGo ahead? [y/N] ",
    );
  });

  test("40 columns → kk's own lines fit, a path stays whole; the plan is as it is, and a line says why it runs over", async () => {
    const wide = `Register\n  folder     ${"/home/you/work/shop".repeat(3)}\n`;
    const s = stage({ BeginApproval: () => planOf({ text: wide }) }, [YES], { columns: 40 });
    await s.register();
    expect(s.screen()).toContain(wide);
    const own = s.screen().replace(wide, "").split("\n");
    expect(own.filter((line) => displayWidth(line) > 40)).toEqual([]);
    expect(own.join("\n")).toContain("/home/you/work/shop\n");
    expect(own.slice(0, 3).join(" ")).toBe(
      "This terminal is 40 columns wide and the plan 70: its long lines go on in the next row.",
    );
    expect(s.calls[0]?.input).toMatchObject({ columns: 40 });
  });

  test("nothing but text: no escape sequence, no box", async () => {
    const s = stage({}, [YES]);
    await s.register();
    expect(s.screen()).toMatch(/^[\x20-\x7e\n]*$/);
  });

  test("plan that could move the cursor → not shown, nothing confirmed", async () => {
    const s = stage({ BeginApproval: () => planOf({ text: "Register\u001b[2A other\n" }) }, [YES]);
    expect(await codeOf(s.register())).toBe("plan-unprintable");
    expect([s.screen(), names(s)]).toEqual(["", ["BeginApproval"]]);
  });

  test.each([
    [119_950, "2 minutes"],
    [90_000, "1 minute 30 seconds"],
    [61_000, "1 minute 1 second"],
    [59_000, "59 seconds"],
    [-5, "1 second"],
  ])("%p ms left → expires in %s", async (expiresInMs, words) => {
    const challenge = { ...planOf().challenge!, expiresInMs };
    const s = stage({ BeginApproval: () => planOf({ challenge }) }, [YES]);
    await s.register();
    expect(s.screen()).toContain(`expires in ${words}.`);
  });
});

describe("nobody to ask", () => {
  const never: Partial<Desk> = {
    presenter: () => {
      throw new Error("the presenter's credential was read");
    },
    enrol: () => Promise.reject(new Error("enrolled")),
  };

  test("no terminal → plan on stdout, one line, exit 4; the presenter's credential is not read", async () => {
    const s = stage({}, null, { desk: never });
    let code: unknown;
    const out = await stdoutOf(async () => (code = await codeOf(s.register())));
    expect([code, out, names(s)]).toEqual([
      "approval-no-terminal",
      TEXT.trimEnd(),
      ["BeginApproval"],
    ]);
    expect(s.calls[0]?.input).not.toHaveProperty("columns");
  });

  test("no terminal, --json → plan as JSON, without what would confirm it", async () => {
    const s = stage({}, null, { desk: never });
    const out = await stdoutOf(() => codeOf(s.register({ ...ASKING, json: true })));
    expect(JSON.parse(out)).toEqual({ ...planOf(), challenge: null });
    expect(out).not.toContain(NONCE);
  });

  test.each(["presenter-is-an-agent", "approval-not-foreground", "approval-no-terminal"])(
    "daemon refuses with %s on a terminal → plan on stdout, its words, exit 4, no question",
    async (code) => {
      const s = stage({ BeginApproval: () => refused(code) }, [], { desk: never });
      let error: unknown;
      const out = await stdoutOf(() => s.register().catch((thrown: unknown) => (error = thrown)));
      expect(out).toBe(TEXT.trimEnd());
      expect(error).toMatchObject({
        code,
        exitCode: 4,
        message: `refused: ${code}`,
        hint: "do this",
      });
      expect([s.screen(), names(s)]).toEqual(["", ["BeginApproval"]]);
    },
  );
});

describe("begun anew", () => {
  const failing = (code: string, times: number, then: ToyHandler): ToyHandler => {
    let left = times;
    return (input, context) => {
      if (left-- > 0) throw fail("approval", code, code);
      return then(input, context);
    };
  };
  const confirmed: ToyHandler = () => ({
    approval: APPROVAL,
    expiresAt: "2026-01-01T00:02:00.000Z",
  });
  const registered: ToyHandler = () => ({ repo: REPO, created: true });

  test.each(["plan-changed", "approval-expired"])(
    "call refused with %s → one line, the plan of now, asked again",
    async (code) => {
      const s = stage({ RegisterRepo: failing(code, 1, registered) }, [YES, YES]);
      await s.register();
      expect(names(s)).toEqual(
        ["BeginApproval", "ConfirmApproval", "RegisterRepo"].concat(names(s).slice(0, 3)),
      );
      expect(s.notes).toEqual([expect.stringMatching(/this is the plan now:$/)]);
      expect(s.screen().split(TEXT).length).toBe(3);
    },
  );

  test.each(["challenge-expired", "challenge-unknown", "challenge-confirmed"])(
    "confirmation refused with %s → one line, asked again",
    async (code) => {
      const s = stage({ ConfirmApproval: failing(code, 1, confirmed) }, [YES, YES]);
      await s.register();
      expect(s.notes).toHaveLength(1);
      expect(names(s).filter((name) => name === "RegisterRepo")).toHaveLength(1);
    },
  );

  test.each(["other-terminal", "not-foreground", "wrong-nonce", "presenter-is-an-agent"])(
    "confirmation refused with %s → that, once",
    async (code) => {
      const s = stage({ ConfirmApproval: failing(code, 9, confirmed) }, [YES]);
      expect(await codeOf(s.register())).toBe(code);
      expect(names(s)).toEqual(["BeginApproval", "ConfirmApproval"]);
    },
  );

  test("state that never stands still → five plans, then the refusal", async () => {
    const s = stage(
      { RegisterRepo: failing("plan-changed", 99, registered) },
      Array.from({ length: 9 }, () => YES),
    );
    expect(await codeOf(s.register())).toBe("plan-changed");
    expect(names(s).filter((name) => name === "BeginApproval")).toHaveLength(5);
  });

  test("daemon gone while the person reads → waked, and the same challenge confirmed", async () => {
    let gone = true;
    const s = stage({}, [YES]);
    const presenter = s.desk.presenter(s.desk.terminal()!)!;
    s.desk.presenter = () => ({
      ...presenter,
      call(method, input, options) {
        if (!gone) return presenter.call(method, input, options);
        throw fail("daemonUnavailable", "daemon-unreachable", "gone");
      },
    });
    s.desk.wake = async () => void (gone = false);
    await s.register();
    expect(names(s)).toEqual(["BeginApproval", "ConfirmApproval", "RegisterRepo"]);
  });
});

describe("presenter", () => {
  test("none enrolled yet → enrolled, the plan made anew and asked about", async () => {
    let begun = 0;
    const first: ToyHandler = () => (begun++ === 0 ? refused("presenter-missing") : planOf());
    const s = stage({ BeginApproval: first }, [YES], { presenter: false });
    await s.register();
    expect([s.enrolments(), names(s)]).toEqual([
      1,
      ["BeginApproval", "BeginApproval", "ConfirmApproval", "RegisterRepo"],
    ]);
  });

  test("enrolment helps nothing → lost, with the way out; no endless round", async () => {
    const s = stage({ BeginApproval: () => refused("presenter-missing") }, [], {
      presenter: false,
    });
    expect(await codeOf(s.register())).toBe("presenter-lost");
    expect(s.enrolments()).toBe(1);
  });

  test("file lost while a presenter is enrolled → the daemon's no names the recovery", async () => {
    const enrol = (): Promise<never> =>
      Promise.reject(fail("approval", "presenter-enrolled", "lost", "kk presenter recover"));
    const s = stage({}, [], { presenter: false, desk: { enrol } });
    expect(await codeOf(s.register())).toBe("presenter-enrolled");
    expect(names(s)).toEqual(["BeginApproval"]);
  });

  test("credential is another presenter's → lost, not the transport's words", async () => {
    const confirm = (): never => {
      throw fail("approval", "credential-unknown", "this credential is unknown");
    };
    expect(await codeOf(stage({ ConfirmApproval: confirm }, [YES]).register())).toBe(
      "presenter-lost",
    );
  });
});

describe("free where it can be", () => {
  const ask = (s: Stage) => {
    const client = makeClient({
      socket: s.toy.socket,
      credential: null,
      clientVersion: "ordinary",
    });
    const at = { client, stateDir: "/s" };
    return readOrAsk(at, "RegisterRepo", { folder: FOLDER }, ASKING, s.desk);
  };

  test("nothing needed → answered without a question", async () => {
    const s = stage({ RegisterRepo: () => ({ repo: REPO, created: false }) }, []);
    expect(await ask(s)).toMatchObject({ created: false });
    expect(names(s)).toEqual(["RegisterRepo"]);
  });

  test("approval needed → asked, then done; any other refusal is passed on", async () => {
    const needing: ToyHandler = (input: { approval?: string }) => {
      if (input.approval !== undefined) return { repo: REPO, created: true };
      throw fail("approval", "approval-needed", "needs a yes");
    };
    const s = stage({ RegisterRepo: needing }, [YES]);
    expect(await ask(s)).toMatchObject({ created: true });
    const other = stage(
      {
        RegisterRepo: () => {
          throw fail("notFound", "no-jj-repo", "no");
        },
      },
      [],
    );
    expect(await codeOf(ask(other))).toBe("no-jj-repo");
    expect(names(other)).toEqual(["RegisterRepo"]);
  });
});

/** Every method of the contract against every kind of caller. */
import { describe, expect, test } from "bun:test";
import { authorize, requireGrant } from "../../src/authority/enforcer.ts";
import type { Grant } from "../../src/authority/broker.ts";
import type { Identified } from "../../src/authority/identify.ts";
import {
  APPROVAL_RULES,
  CALLERS,
  TARGETS,
  type About,
  type Identity,
} from "../../src/core/access.ts";
import { fail, KikiError } from "../../src/core/errors.ts";
import { METHODS, type MethodName } from "../../src/rpc/contract/methods.ts";

const known = (identity: Identity): Identified => ({
  identity,
  fingerprint: null,
  unavailable: null,
});
const THREAD = { kind: "ThreadScoped", credentialId: "c", repoId: "r1", threadId: "own" } as const;
const WHO = {
  nobody: { identity: null, fingerprint: "none", unavailable: null },
  registration: known({ kind: "RegistrationScoped", credentialId: "c" }),
  own: known(THREAD),
  sibling: known({ ...THREAD, threadId: "sibling" }),
  presenter: known({ kind: "ApprovalPresenter", credentialId: "c", presenterId: "p" }),
  admin: known({ kind: "Admin", credentialId: "c" }),
} as const satisfies Record<string, Identified>;
type Who = keyof typeof WHO;

/** What a method that can be about a thread is asked about here. */
function aboutOwn(method: MethodName): About {
  const { target } = METHODS[method].access;
  const thread = ["thread", "ids", "operation", "caller", "begin"].includes(target);
  const repo = target !== "none";
  return { repoId: repo ? "r1" : null, threadId: thread ? "own" : null, began: false };
}

async function outcome(
  method: MethodName,
  who: Identified,
  more: { about?: About; approval?: Grant } = {},
): Promise<string> {
  try {
    const caller = await authorize({
      method,
      access: METHODS[method].access,
      who,
      about: () => Promise.resolve(more.about ?? aboutOwn(method)),
      approval: more.approval === undefined ? null : "a",
      grant: () => more.approval!,
    });
    // What begins something asks for its approval when it does.
    if (METHODS[method].access.approval === "always") requireGrant(caller, method);
    return "yes";
  } catch (error) {
    if (!(error instanceof KikiError)) throw error;
    expect(error.kind).toBe("approval");
    return error.code.replace(/^(credential|approval)-/, "");
  }
}

/**
 * nobody · registration · the thread it is about · another thread · presenter · admin.
 * A method that is not in here is one nobody has thought about: the compiler says so.
 */
const EXPECTED: Record<MethodName, string> = {
  DaemonStatus: "yes yes yes yes yes yes",
  DaemonShutdown: "yes yes yes yes yes yes",
  Doctor: "missing yes yes yes kind kind",
  RegisterRepo: "missing needed needed needed kind kind",
  UnregisterRepo: "missing needed needed needed kind kind",
  ListRepos: "missing yes yes yes kind kind",
  ResolveContext: "missing yes yes yes kind kind",
  GetConfig: "missing yes yes thread kind kind",
  BeginApproval: "missing yes yes yes kind kind",
  ConfirmApproval: "missing kind kind kind yes kind",
  CancelApproval: "missing kind kind kind yes kind",
  EnrollApprovalPresenter: "missing yes kind kind kind yes",
  RecoverApprovalPresenter: "missing kind kind kind kind yes",
  NewThread: "missing needed needed needed kind kind",
  DiagnoseRepair: "missing yes yes needed kind kind",
  ApplyRepair: "missing needed needed needed kind kind",
  RepoThreadSummaries: "missing yes yes yes kind kind",
  GetThreadState: "missing yes yes needed kind kind",
  GetLifecycleOperation: "missing yes yes thread kind kind",
  GetStatusBody: "missing yes yes needed kind kind",
  EnsurePanes: "missing yes yes yes kind kind",
  GetThreadAudit: "missing needed yes needed kind kind",
  GetAuditLog: "missing needed needed needed kind kind",
  AwaitLaunchGate: "missing kind yes thread kind kind",
  ReportHarnessStarted: "missing kind yes thread kind kind",
  ReportHarnessExited: "missing kind yes thread kind kind",
  // About whoever calls: the incarnation in them proves itself to the handler.
  PreToolUseDecision: "missing kind yes thread kind kind",
  Hold: "missing kind yes thread kind kind",
  MarkDelivered: "missing kind yes thread kind kind",
  ReportEvent: "missing kind yes thread kind kind",
};

const NAMES = Object.keys(METHODS) as MethodName[];

describe("every method", () => {
  for (const method of NAMES) {
    test(`${method}: nobody, registration, own thread, sibling, presenter, admin → ${EXPECTED[method]}`, async () => {
      const found: string[] = [];
      for (const who of Object.keys(WHO) as Who[]) found.push(await outcome(method, WHO[who]));
      expect(found.join(" ")).toBe(EXPECTED[method]);
    });
  }

  test("contract: each method says who may call it, about what, with which approval, into which log", () => {
    expect(Object.keys(EXPECTED).sort()).toEqual([...NAMES].sort());
    for (const method of NAMES) {
      const { access, input } = METHODS[method];
      expect(CALLERS).toContain(access.callers);
      expect(TARGETS).toContain(access.target);
      expect(APPROVAL_RULES).toContain(access.approval);
      const takesApproval = "approval" in ((input as { shape?: object }).shape ?? {});
      expect([method, takesApproval]).toEqual([method, access.approval !== "never"]);
    }
  });

  test("presenter and admin credentials → refused by every operational method", async () => {
    const theirs = ["ConfirmApproval", "CancelApproval", "EnrollApprovalPresenter"];
    const open = ["DaemonStatus", "DaemonShutdown", "RecoverApprovalPresenter"];
    for (const method of NAMES.filter((name) => ![...theirs, ...open].includes(name))) {
      expect([method, await outcome(method, WHO.presenter)]).toEqual([method, "kind"]);
      expect([method, await outcome(method, WHO.admin)]).toEqual([method, "kind"]);
    }
  });
});

describe("scope", () => {
  test("a thread about the same id in another repository → as about a sibling", async () => {
    const about = { repoId: "r2", threadId: "own", began: false };
    expect(await outcome("GetThreadState", WHO.own, { about })).toBe("needed");
    expect(await outcome("GetConfig", WHO.own, { about })).toBe("thread");
    expect(await outcome("AwaitLaunchGate", WHO.own, { about })).toBe("thread");
  });

  test("a thread about every thread at once → as about a sibling", async () => {
    const about = { repoId: "r1", threadId: null, began: false };
    expect(await outcome("DiagnoseRepair", WHO.own, { about })).toBe("needed");
  });

  test("configuration of its own repository → yes, of another one → no", async () => {
    const about = { repoId: "r1", threadId: null, began: false };
    expect(await outcome("GetConfig", WHO.own, { about })).toBe("yes");
    const other = { repoId: "r2", threadId: null, began: false };
    expect(await outcome("GetConfig", WHO.own, { about: other })).toBe("thread");
  });

  test("operation a thread has begun with an approval → it may follow it, and nothing else of that thread", async () => {
    const about = { repoId: "r1", threadId: "sibling", began: true };
    expect(await outcome("GetLifecycleOperation", WHO.own, { about })).toBe("yes");
    expect(await outcome("GetThreadState", WHO.own, { about })).toBe("needed");
  });

  test("wrong kind of credential → nothing is looked up for it", async () => {
    const looked = authorize({
      method: "GetThreadState",
      access: METHODS.GetThreadState.access,
      who: WHO.admin,
      about: () => Promise.reject(new Error("looked up")),
      approval: null,
      grant: () => {
        throw new Error("looked up");
      },
    });
    expect(await looked.catch((error: KikiError) => error.code)).toBe("credential-kind");
  });

  test("unknown credential → unknown; one of a repository that cannot be opened → that reason", async () => {
    const who = { identity: null, fingerprint: "hmac 1", unavailable: null };
    expect(await outcome("ListRepos", who)).toBe("unknown");
    const unavailable = fail("approval", "repo-unavailable", "cannot be opened");
    expect(await outcome("ListRepos", { ...who, unavailable })).toBe("repo-unavailable");
  });
});

describe("with an approval", () => {
  function grant(log: string[]): Grant {
    return {
      approvalId: "a",
      digest: "d",
      begun: null,
      claim: () => log.push("claim"),
      spend: () => log.push("spend"),
    };
  }

  test("read of a sibling → allowed, spent before the read", async () => {
    const log: string[] = [];
    expect(await outcome("GetThreadState", WHO.sibling, { approval: grant(log) })).toBe("yes");
    expect(log).toEqual(["spend"]);
  });

  test("effect → handed on unspent: it is claimed with the effect", async () => {
    const log: string[] = [];
    expect(await outcome("NewThread", WHO.own, { approval: grant(log) })).toBe("yes");
    expect(log).toEqual([]);
  });

  test("read that needs none → not spent on it", async () => {
    const log: string[] = [];
    expect(await outcome("GetThreadState", WHO.own, { approval: grant(log) })).toBe("yes");
    expect(log).toEqual([]);
  });

  test("credential that may not call the method at all → no approval helps", async () => {
    const log: string[] = [];
    expect(await outcome("NewThread", WHO.presenter, { approval: grant(log) })).toBe("kind");
    expect(await outcome("GetConfig", WHO.sibling, { approval: grant(log) })).toBe("thread");
    expect(log).toEqual([]);
  });
});

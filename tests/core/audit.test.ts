/** A thread's own slice of the audit log: nothing that identifies anybody, no words of others. */
import { expect, test } from "bun:test";
import { redactForThread, type AuditRecord } from "../../src/core/audit.ts";

const ROW: Required<AuditRecord> = {
  at: "2026-12-01T10:00:00.000Z",
  repoId: "repo",
  method: "GetThreadState",
  threadId: "parser",
  target: "a target",
  callerKind: "ThreadScoped",
  credentialId: "a credential",
  fingerprint: "a fingerprint",
  approval: "an approval",
  outcome: "rejected",
  errorCode: "approval-needed",
  detail: { planId: "a plan" },
};

test("redaction: the thread's own request → all of it but who and by which approval", () => {
  expect(redactForThread(ROW, true)).toEqual({
    ...ROW,
    credentialId: null,
    fingerprint: null,
    approval: null,
  });
});

test("redaction: somebody else's request → that there was one and how it ended, nothing it said", () => {
  const shown = redactForThread(ROW, false);
  expect(shown).toEqual({
    ...ROW,
    target: null,
    credentialId: null,
    fingerprint: null,
    approval: null,
    detail: {},
  });
  expect(JSON.stringify(shown)).not.toMatch(/a (?:target|credential|fingerprint|plan)|an approval/);
});

test("redaction: a field a later version adds → left out until it is let through by name", () => {
  const later = { ...ROW, secretOfTomorrow: "x" };
  expect(Object.keys(redactForThread(later, true)).sort()).toEqual(Object.keys(ROW).sort());
});

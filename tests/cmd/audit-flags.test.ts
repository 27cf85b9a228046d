/** Flags of `kk audit log` and `kk thread audit`: what is sent, and one clear line for what is wrong. */
import { expect, test } from "bun:test";
import { auditFilter } from "../../src/cmd/audit-flags.ts";
import { MAX_AUDIT_ROWS } from "../../src/rpc/contract/inputs.ts";
import { METHODS } from "../../src/rpc/contract/methods.ts";

const NOW = Date.UTC(2026, 11, 1, 12);
type Given = Parameters<typeof auditFilter>[0];

const filter = (given: Given) => auditFilter(given, "kk help audit log", NOW);
const complaint = (given: Given): Promise<string> =>
  filter(given).then(
    () => "accepted",
    (error: { message: string; exitCode: number; hint: string }) =>
      `${error.exitCode} ${error.hint} ${error.message}`,
  );

test("no flags → the newest hundred, which the contract accepts", async () => {
  const sent = await filter({});
  expect(sent).toEqual({ since: null, method: null, outcome: null, limit: 100 });
  expect(METHODS.GetAuditLog.input.parse({ scope: "user", repo: null, ...sent })).toMatchObject(
    sent,
  );
});

test("every flag → as the contract wants it: ISO time, exact name", async () => {
  const given = { since: "2h", method: "newthread", outcome: "rejected", limit: "1000" };
  const sent = await filter(given);
  expect(sent).toEqual({
    since: "2026-12-01T10:00:00.000Z",
    method: "NewThread",
    outcome: "rejected",
    limit: MAX_AUDIT_ROWS,
  });
  expect(METHODS.GetAuditLog.input.parse({ scope: "user", repo: null, ...sent })).toMatchObject(
    sent,
  );
});

test("what is wrong → one line with what was typed and what is taken, exit code 2", async () => {
  for (const since of ["yesterday", "", "2026-02-30", "5 h"]) {
    const text = await complaint({ since });
    expect(text).toStartWith(
      `2 kk help audit log --since does not accept ${JSON.stringify(since)}: use a duration (`,
    );
    expect(text).not.toContain("\n");
  }
  for (const limit of ["0", "-1", "1001", "1e2", "ten", "", "1.5"]) {
    expect(await complaint({ limit })).toBe(
      `2 kk help audit log --limit does not accept ${JSON.stringify(limit)}: use a number from 1 to 1000`,
    );
  }
  for (const method of ["NewThraed", "newthred"]) {
    expect(await complaint({ method })).toEndWith(
      `there is no method "${method}" — did you mean NewThread?`,
    );
  }
  expect(await complaint({ method: "zzzzzz" })).toEndWith("docs/rpc.md lists them");
});

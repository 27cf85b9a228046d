/** Audit rows as text: golden lines, nothing lost on a narrow terminal, no row wider than it, no control bytes. */
import { describe, expect, test } from "bun:test";
import type { AuditRecord } from "../../../src/core/audit.ts";
import { renderAudit, type AuditOptions } from "../../../src/core/render/audit.ts";
import { displayWidth } from "../../../src/core/render/width.ts";

const PLAIN: AuditOptions = {
  local: (iso) => ({ day: iso.slice(0, 10), time: iso.slice(11, 19) }),
  columns: null,
  colour: false,
  names: new Map([
    ["id-parser", "parser"],
    ["id-wide", "日本語の名前"],
  ]),
  threads: true,
  repos: null,
  more: false,
  filtered: false,
};

function row(over: Partial<AuditRecord> = {}): AuditRecord {
  return {
    at: "2026-11-30T09:05:07.000Z",
    repoId: "r1",
    method: "GetThreadState",
    threadId: "id-parser",
    target: null,
    callerKind: "ThreadScoped",
    credentialId: "c0ffee00-1111",
    fingerprint: null,
    approval: null,
    outcome: "accepted",
    errorCode: null,
    detail: {},
    ...over,
  };
}

const STORY: AuditRecord[] = [
  row(),
  row({
    at: "2026-11-30T23:59:59.000Z",
    method: "NewThread",
    threadId: null,
    callerKind: "RegistrationScoped",
    credentialId: "00ddba11-2222",
    approval: "abcdef01-3333",
  }),
  row({
    at: "2026-12-01T00:00:01.000Z",
    method: "ApplyRepair",
    threadId: "id-wide",
    callerKind: null,
    credentialId: null,
    fingerprint: "uid 1000",
    outcome: "rejected",
    errorCode: "credential-missing",
    detail: { planId: "r-1", count: 2, absent: null },
  }),
];

describe("audit rows", () => {
  test("a wide terminal → one line each below its day", () => {
    expect(renderAudit(STORY, { ...PLAIN, columns: 120 }).split("\n")).toEqual([
      "2026-11-30",
      "09:05:07 ✓ GetThreadState  parser        ThreadScoped c0ffee00",
      "23:59:59 ✓ NewThread                     RegistrationScoped 00ddba11  approval abcdef01",
      "2026-12-01",
      "00:00:01 ! ApplyRepair     日本語の名前  credential-missing  unidentified uid 1000  planId=r-1  count=2",
    ]);
  });

  test("a narrow terminal → the same, wrapped below the method", () => {
    expect(renderAudit([STORY[2]!], { ...PLAIN, columns: 44 }).split("\n")).toEqual([
      "2026-12-01",
      "00:00:01 ! ApplyRepair  日本語の名前",
      "           credential-missing",
      "           unidentified uid 1000  planId=r-1",
      "           count=2",
    ]);
  });

  test("no terminal → one line each with its whole time, nothing cut", () => {
    const long = "x".repeat(300);
    const text = renderAudit([row({ detail: { folder: long } })], PLAIN);
    expect(text.split("\n")).toHaveLength(1);
    expect(text).toStartWith("2026-11-30T");
    expect(text).toEndWith(`folder=${long}`);
  });

  test("any width, any text → no line is wider, every request has its method and its sign", () => {
    const rows = [...STORY, row({ method: "M".repeat(60), detail: { 日: "本".repeat(80) } })];
    for (let columns = 10; columns <= 130; columns += 1) {
      const text = renderAudit(rows, { ...PLAIN, columns, more: true });
      for (const line of text.split("\n")) {
        expect([columns, displayWidth(line) <= columns, line]).toEqual([columns, true, line]);
      }
      expect(text.match(/^\d\d:\d\d:\d\d?/gm)?.length ?? 0).toBe(rows.length);
    }
  });

  test("monochrome → accepted and rejected differ; colour adds nothing but colour", () => {
    const plain = renderAudit(STORY, { ...PLAIN, columns: 120 });
    expect(plain).not.toContain("\u001b");
    const painted = renderAudit(STORY, { ...PLAIN, columns: 120, colour: true });
    expect(painted).toContain("\u001b[31m");
    // oxlint-disable-next-line no-control-regex
    expect(painted.replaceAll(/\u001b\[\d+m/g, "")).toBe(plain);
  });

  test("text of a caller with control characters → none reaches the terminal", () => {
    const bad = "a\u001b[2Jb\nc\u202e";
    const text = renderAudit(
      [row({ method: bad, target: bad, threadId: null, detail: { [bad]: bad }, errorCode: bad })],
      { ...PLAIN, columns: 200 },
    );
    // oxlint-disable-next-line no-control-regex
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u202e]/);
    expect(text.split("\n")).toHaveLength(2);
  });

  test("subjects: thread known, unknown, several repositories, one thread only", () => {
    const line = (over: Partial<AuditRecord>, options: Partial<AuditOptions> = {}): string =>
      renderAudit([row(over)], { ...PLAIN, ...options }).split("GetThreadState")[1]!;
    expect(line({})).toStartWith("  parser  ");
    expect(line({ threadId: "0123456789" })).toStartWith("  01234567  ");
    expect(line({ threadId: null, target: "/w/kiki" })).toStartWith("  /w/kiki  ");
    expect(line({}, { threads: false })).toStartWith("  ThreadScoped");
    const repos = new Map([["r1", "/home/p/code/kiki"]]);
    expect(line({}, { repos })).toStartWith("  kiki parser  ");
    expect(line({ threadId: null }, { repos })).toStartWith("  kiki  ");
  });

  test("ids and digests on a terminal → their first characters; elsewhere whole", () => {
    const id = "36f31163-28cb-4198-88c7-8a64cce91ca8";
    const detail = { digest: "d".repeat(64), note: `x ${id} y` };
    const rows = [row({ threadId: null, target: `challenge ${id}`, detail })];
    const short = "challenge 36f31163  ThreadScoped c0ffee00  digest=dddddddd  note=x 36f31163 y";
    expect(renderAudit(rows, { ...PLAIN, columns: 160 })).toEndWith(short);
    expect(renderAudit(rows, PLAIN)).toContain(`challenge ${id}`);
    expect(renderAudit(rows, PLAIN)).toEndWith(`digest=${detail.digest}  note=${detail.note}`);
  });

  test("a request about the repository as a whole → not said again", () => {
    const rows = [row({ threadId: null, target: "repo r1" })];
    const lineOf = (options: Partial<AuditOptions>): string =>
      renderAudit(rows, { ...PLAIN, ...options }).split("GetThreadState")[1]!;
    expect(lineOf({})).toStartWith("  ThreadScoped");
    expect(lineOf({ repos: new Map([["r1", "/code/kiki"]]) })).toStartWith("  kiki  ThreadScoped");
    const elsewhere = renderAudit([row({ threadId: null, repoId: null, target: "repo x" })], PLAIN);
    expect(elsewhere).toContain("repo x");
  });

  test("nothing to show → says whether a filter is why; more → says how to see it", () => {
    expect(renderAudit([], PLAIN)).toBe("no requests are recorded");
    expect(renderAudit([], { ...PLAIN, filtered: true })).toBe("no recorded request matches");
    expect(renderAudit([row()], { ...PLAIN, more: true }).split("\n")[0]).toContain("--limit");
  });
});

import { describe, expect, test } from "bun:test";
import { composeBriefing } from "../../src/core/briefing.ts";
import {
  DENY_VERDICT_END,
  DENY_VERDICT_START,
  denyVerdict,
  GENERIC_DENY_REASON,
  genericDenyOutput,
  KIKI_HEADER,
  refusalReason,
} from "../../src/core/generic-deny.ts";

describe("briefing", () => {
  const facts = {
    threadName: "tests",
    workspacePath: "/w/repo-kiki-tests",
    followsName: "parser",
    colocated: true,
  };

  test("a follower in a colocated repository → name, goal, workspace, parent, jj and git, the header", () => {
    const text = composeBriefing({ ...facts, goal: "write\n  the tests" });
    for (const part of [
      '"tests"',
      "write the tests",
      "/w/repo-kiki-tests",
      '"parser"',
      "jj describe",
      "git",
      KIKI_HEADER,
    ]) {
      expect([part, text.includes(part)]).toEqual([part, true]);
    }
    expect(text).toContain("re-read");
  });

  test("no goal, no parent, no git → says so and names none", () => {
    const text = composeBriefing({ ...facts, followsName: null, colocated: false, goal: null });
    expect(text).toContain("follows no other thread");
    expect(text).toContain("no git checkout");
    expect(text).not.toContain("goal");
  });

  test("a very long goal → shortened, never within a character", () => {
    const text = composeBriefing({ ...facts, goal: "🚀".repeat(5_000) });
    expect(text.length).toBeLessThan(4_000);
    expect(text).toContain("🚀…");
  });
});

describe("generic deny", () => {
  test("texts → begin with the header, one verdict of one line, no white space around", () => {
    for (const reason of [GENERIC_DENY_REASON, refusalReason(" no thread \n")]) {
      expect(reason).toStartWith(`${KIKI_HEADER} `);
      expect(reason).toBe(reason.trim());
      expect(reason).toContain("did not run");
    }
    for (const verdict of [genericDenyOutput(), denyVerdict("a\nb\u2028c")]) {
      expect(verdict).toStartWith(DENY_VERDICT_START);
      expect(verdict).toEndWith(DENY_VERDICT_END);
      expect(verdict).not.toContain("\n");
      expect(JSON.parse(verdict)).toBeObject();
    }
  });
});

/** Set-up recipes, the pure part: what may be copied, what an end means. */
import { describe, expect, test } from "bun:test";
import { checkPattern, exitStatus, outcomeText, setupArgv } from "../../src/core/setup.ts";

describe("checkPattern", () => {
  test.each([
    [".env", ".env"],
    ["./config/*.json", "config/*.json"],
    ["config/", "config"],
    ["config//./a", "config/a"],
    ["a..b/..c", "a..b/..c"],
  ])("%p → matched as %p", (pattern, plain) => {
    expect(checkPattern(pattern)).toEqual({ ok: true, value: plain });
  });

  test.each([
    ["", "names no file"],
    ["./", "names no file"],
    ["a\0b", "names no file"],
    ["/etc/passwd", "is not relative"],
    ["~/.ssh/id", "is not relative"],
    ["../x", "leads out of the repository"],
    ["a/../../x", "leads out of the repository"],
    [".jj/repo", "belongs to jj or git"],
    ["sub/.git/config", "belongs to jj or git"],
  ])("%p → refused: %p", (pattern, why) => {
    expect(checkPattern(pattern)).toEqual({ ok: false, error: why });
  });
});

describe("outcome", () => {
  test("exitStatus: 0, other numbers, no number → ok, failed, nothing known", () => {
    expect(exitStatus("0\n")).toEqual({ is: "ok" });
    expect(exitStatus("143\n")).toEqual({ is: "failed", code: 143 });
    expect([exitStatus(""), exitStatus("\n"), exitStatus("x")]).toEqual([null, null, null]);
  });

  test("outcomeText: nothing to say for success and for no command; a signal by its number", () => {
    expect([outcomeText(null), outcomeText({ is: "ok" })]).toEqual([null, null]);
    expect(outcomeText({ is: "failed", code: 2 })).toBe("failed (exit code 2)");
    expect(outcomeText({ is: "failed", code: 137 })).toBe("was ended by signal 9");
    expect(outcomeText({ is: "unknown" })).toContain("it was not run again");
  });

  test("setupArgv: the command is one argument, never part of the shell text", () => {
    const argv = setupArgv("echo '$x' \"; rm\n", { token: "t", claim: "/c", status: "/s" });
    expect(argv.slice(3)).toEqual(["kiki-setup-t", "echo '$x' \"; rm\n", "/c", "/s"]);
    expect(argv[2]).not.toContain("rm");
  });
});

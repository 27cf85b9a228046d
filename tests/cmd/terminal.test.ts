/** Small decisions of the command line: colour, errors, yes, where a terminal goes. */
import { describe, expect, test } from "bun:test";
import { fail, KikiError } from "../../src/core/errors.ts";
import { isYes } from "../../src/cmd/approve.ts";
import { errorText, exitCodeOf, wantsColour } from "../../src/cmd/out.ts";
import { Shown } from "../../src/cmd/progress.ts";
import { daemonEnv } from "../../src/core/daemon-env.ts";
import { insideSocket, moveTo, sessionSocket } from "../../src/cmd/tmux-client.ts";
import { shellLine } from "../../src/core/shell-line.ts";

describe("colour", () => {
  test("terminal without objections → colour; anything against it → none", () => {
    expect(wantsColour({ TERM: "xterm" }, true)).toBe(true);
    for (const env of [
      { NO_COLOR: "1" },
      { NO_COLOR: "yes" },
      { CLICOLOR: "0" },
      { TERM: "dumb" },
    ]) {
      expect([env, wantsColour(env, true)]).toEqual([env, false]);
    }
    expect(wantsColour({}, false)).toBe(false);
    expect(wantsColour({ NO_COLOR: "", CLICOLOR: "1" }, true)).toBe(true);
  });
});

describe("error line", () => {
  const cause = new Error("disk is full", { cause: "ENOSPC" });
  const error = new KikiError(
    { kind: "needsRepair", code: "x", message: "it broke\nbadly", hint: "kk repair" },
    cause,
  );

  test("failure → one line with the next command; verbose → its causes below", () => {
    expect(errorText(error, false)).toBe("kk: it broke — kk repair");
    expect(errorText(error, true)).toBe(
      "kk: it broke — kk repair\n  caused by: disk is full\n  caused by: ENOSPC",
    );
  });

  test("escape sequences in a message → cannot reach the terminal", () => {
    expect(errorText(fail("failed", "x", "no thread \u001b[31mred"), false)).not.toContain(
      "\u001b",
    );
  });

  test("kinds → the documented exit codes; a bug → 1", () => {
    const kinds = [
      "failed",
      "usage",
      "notFound",
      "approval",
      "daemonUnavailable",
      "needsRepair",
    ] as const;
    expect(kinds.map((kind) => exitCodeOf(fail(kind, "x", "y")))).toEqual([1, 2, 3, 4, 5, 6]);
    expect(exitCodeOf(new TypeError("bug"))).toBe(1);
  });
});

describe("approval answer", () => {
  test("only y and yes → yes", () => {
    expect(["y", "yes", "Y", " YES "].map(isYes)).toEqual([true, true, true, true]);
    expect(["", "n", "no", "ye", "yes please", "y\0", "1", "ok"].some(isYes)).toBe(false);
  });
});

describe("going to a session", () => {
  const inside = { TMUX: "/tmp/a.sock,123,0", TMUX_PANE: "%1" };
  const session = { socket: "/tmp/a.sock", sessionId: "$3" };

  test("inside the same server → switch-client; outside tmux → attach", () => {
    expect(moveTo(session, inside, true)).toEqual({
      how: "run",
      argv: ["tmux", "-S", "/tmp/a.sock", "switch-client", "-t", "$3"],
    });
    expect(moveTo(session, {}, true)).toEqual({
      how: "run",
      argv: ["tmux", "-S", "/tmp/a.sock", "attach-session", "-t", "$3"],
    });
  });

  test("inside another server, or no terminal → told what to type", () => {
    const nested = moveTo(session, { TMUX: "/tmp/b.sock,1,0" }, true);
    expect(nested).toMatchObject({
      how: "tell",
      why: expect.stringContaining("another tmux server"),
    });
    expect(moveTo(session, {}, false)).toMatchObject({
      how: "tell",
      why: "this is not a terminal",
    });
    expect(shellLine(nested.argv)).toBe("tmux -S /tmp/a.sock attach-session -t '$3'");
  });

  test("thread on the default server → recognised by tmux's own rule", () => {
    const uid = process.getuid?.() ?? 0;
    const usual = `/tmp/tmux-${uid}/default`;
    const there = { socket: null, sessionId: "$1" };
    expect(moveTo(there, { TMUX: `${usual},1,0` }, true)).toMatchObject({
      argv: ["tmux", "-S", usual, "switch-client", "-t", "$1"],
    });
    // Here `tmux` alone would be another server, where $1 is somebody else's session.
    const moved = { TMUX_TMPDIR: "/run/t" };
    expect(moveTo(there, moved, true)).toMatchObject({
      argv: ["tmux", "-S", usual, "attach-session", "-t", "$1"],
    });
    const inMoved = { ...moved, TMUX: `/run/t/tmux-${uid}/default,1,0` };
    expect(moveTo(there, inMoved, true).how).toBe("tell");
    expect(moveTo({ socket: null, sessionId: "$1" }, {}, true).argv.slice(0, 2)).toEqual([
      "tmux",
      "attach-session",
    ]);
  });

  test("socket: TMUX (commas in its path too) → KIKI_TMUX_SOCKET → none", () => {
    expect(insideSocket({ TMUX: "/tmp/a,b/s,12,3" })).toBe("/tmp/a,b/s");
    expect(sessionSocket({ ...inside, KIKI_TMUX_SOCKET: "/k" })).toBe("/tmp/a.sock");
    expect(sessionSocket({ KIKI_TMUX_SOCKET: "/k" })).toBe("/k");
    expect(sessionSocket({ TMUX: "", KIKI_TMUX_SOCKET: "" })).toBeNull();
    // The daemon serves terminals that differ in this; tmux there must mean what it means here.
    const uid = process.getuid?.() ?? 0;
    expect(sessionSocket({ TMUX_TMPDIR: "/run/t" })).toBe(`/run/t/tmux-${uid}/default`);
    expect(daemonEnv({ TMUX_TMPDIR: "/run/t" })).toEqual({});
  });
});

describe("creation progress", () => {
  const step = (
    name: string,
    state: "Pending" | "Completed" | "Compensated" | "Failed",
    error: string | null = null,
  ) => ({
    ordinal: 1,
    name,
    state,
    error,
  });

  test("steps as they end → one line each, once", () => {
    const shown = new Shown();
    expect(
      shown.news({
        steps: [step("allocate", "Completed"), step("workspace", "Pending")],
        attention: [],
      }),
    ).toEqual(["  ✓ allocate"]);
    const later = [step("allocate", "Completed"), step("workspace", "Completed")];
    expect(shown.news({ steps: later, attention: [] })).toEqual(["  ✓ workspace"]);
    expect(shown.news({ steps: later, attention: [] })).toEqual([]);
  });

  test("failure → what failed, then undone in reverse; a waiting dialog is shown", () => {
    const shown = new Shown();
    const steps = [
      step("allocate", "Compensated"),
      step("workspace", "Compensated"),
      step("head", "Failed", "no luck"),
    ];
    const attention = [{ kind: "startup-dialog", message: "accept the dialog", raisedAt: "" }];
    expect(shown.news({ steps, attention })).toEqual([
      "  ! head failed",
      "  undone: workspace",
      "  undone: allocate",
      "  ! accept the dialog",
    ]);
  });
});

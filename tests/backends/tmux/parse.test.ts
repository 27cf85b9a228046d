import { describe, expect, test } from "bun:test";
import {
  literal,
  parsePanes,
  parseSessions,
  parseVersion,
  saysNoServer,
  saysVersionSkew,
  word,
} from "../../../src/backends/tmux/parse.ts";

describe("tmux parse", () => {
  test("sessions: tags present, absent, and a name holding the separator → all read", () => {
    expect(parseSessions("$0|1|t-1|op-1|kk-12345678-a\n$12|0|||x|y z\n")).toEqual([
      {
        id: "$0",
        name: "kk-12345678-a",
        attached: 1,
        tags: { "@kiki_thread": "t-1", "@kiki_op": "op-1" },
      },
      { id: "$12", name: "x|y z", attached: 0, tags: {} },
    ]);
  });

  test("sessions: one line that is no record → the whole answer proves nothing", () => {
    expect(parseSessions("$0|1|||a\nlost server\n")).toBeNull();
    expect(parseSessions("$0|1|||a\n$1|")).toBeNull();
    expect(parseSessions("")).toEqual([]);
  });

  test("panes: kiki's own and one a person split off → only kiki's has tags", () => {
    // Options are inherited: a pane without its own role shows the @kiki_op of its session.
    expect(parsePanes("%0|$0|100|0|agent|op-1|s\n%1|$0|101|1||op-1|s\n")).toEqual([
      {
        id: "%0",
        sessionId: "$0",
        sessionName: "s",
        pid: 100,
        dead: false,
        tags: { "@kiki_role": "agent", "@kiki_op": "op-1" },
      },
      { id: "%1", sessionId: "$0", sessionName: "s", pid: 101, dead: true, tags: {} },
    ]);
    expect(parsePanes("%0|$0||0|||s\n")).toBeNull();
  });

  test("version: every form tmux prints → read, and judged against 3.2", () => {
    const cases: [string, string | null, boolean][] = [
      ["tmux 3.3a", "3.3a", true],
      ["tmux 3.2", "3.2", true],
      ["tmux 3.1c", "3.1c", false],
      ["tmux 2.9a", "2.9a", false],
      ["tmux 10.0", "10.0", true],
      ["tmux next-3.6", "next-3.6", true],
      ["tmux master", "master", true],
      ["tmux openbsd-7.4", "openbsd-7.4", true],
      ["tmux", null, false],
      ["screen 4.09", null, false],
      ["", null, false],
    ];
    for (const [said, text, enough] of cases) {
      expect([said, parseVersion(said)]).toEqual([said, text === null ? null : { text, enough }]);
    }
  });

  test("no server: what tmux 3.3a says → told from every other failure", () => {
    expect(saysNoServer("no server running on /tmp/x/s\n")).toBe(true);
    expect(saysNoServer("error connecting to /tmp/x/s (No such file or directory)\n")).toBe(true);
    expect(saysNoServer("error connecting to /tmp/x/s (Permission denied)\n")).toBe(false);
    expect(saysNoServer("error connecting to /tmp/x/s (File name too long)\n")).toBe(false);
    expect(saysNoServer("server exited unexpectedly\n")).toBe(false);
    expect(saysNoServer("lost server\n")).toBe(false);
    expect(saysNoServer("")).toBe(false);
  });

  test("skew: a protocol mismatch → recognised", () => {
    expect(saysVersionSkew("protocol version mismatch (client 8, server 7)\n")).toBe(true);
    expect(saysVersionSkew("can't find session: x\n")).toBe(false);
  });

  test("arguments: a trailing semicolon and format characters → literal text", () => {
    expect(word("a;")).toBe("a\\;");
    expect(word(";a")).toBe(";a");
    expect(literal("a#(id)b#{pid}c#")).toBe("a##(id)b##{pid}c##");
    expect(literal("##[x#[y")).toBe("##[x#[y");
  });
});

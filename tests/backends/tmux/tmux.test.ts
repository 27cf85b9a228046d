/** TmuxBackend against a real server of the test's own. */
import { afterAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { openTmux } from "../../../src/backends/tmux/tmux.ts";
import { KikiError } from "../../../src/core/errors.ts";
import type { TmuxBackend } from "../../../src/ports/tmux.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";
import { tmuxOn, type TestTmux } from "../../support/tmux.ts";
import { waitFor } from "../../support/wait.ts";

const servers: TestTmux[] = [];
afterAll(async () => {
  await Promise.all(servers.map((server) => server.kill()));
  removeTempDirs();
});

const PATH = process.env["PATH"] ?? "/usr/bin:/bin";

/** A folder, and tmux on a socket in it; `raw` is the same server past the backend. */
function box(config = ""): {
  dir: string;
  tmux: TmuxBackend;
  raw: TestTmux;
  env: Record<string, string>;
} {
  const dir = tempDir("tmux");
  const home = join(dir, "home");
  mkdirSync(home);
  writeFileSync(join(home, ".tmux.conf"), config);
  const env = { PATH, HOME: home, SHELL: "/bin/sh", TMPDIR: dir };
  const socket = join(dir, "tmux.sock");
  const raw = tmuxOn(socket);
  servers.push(raw);
  return { dir, tmux: openTmux({ socket, env }), raw, env };
}

const SLEEP = ["sleep", "600"];

function sessionInput(cwd: string, name = "kk-12345678-a") {
  return {
    name,
    cwd,
    command: SLEEP,
    env: { KIKI_X: "1" },
    columns: 120,
    rows: 40,
    tags: { "@kiki_thread": "thread-1", "@kiki_op": "op-1" },
    paneTags: { "@kiki_role": "agent", "@kiki_op": "op-1" },
  };
}

async function errorOf(promise: Promise<unknown>): Promise<KikiError> {
  const error = await promise.then(
    () => new Error("it succeeded"),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(KikiError);
  return error as KikiError;
}

test("socket: default server's under another TMUX_TMPDIR, nobody started one there → started, private folder", async () => {
  const { dir, env } = box();
  // A folder of its own: tmux makes it for the default socket only.
  const socket = join(dir, "tmux-0", "default");
  servers.push(tmuxOn(socket));
  const tmux = openTmux({ socket, env });
  expect(await tmux.listSessions()).toEqual({ known: true, value: [] });
  const { sessionId } = await tmux.newSession(sessionInput(dir));
  const found = await tmux.listSessions();
  expect(found.known && found.value.map((s) => s.id)).toEqual([sessionId]);
  expect(statSync(join(dir, "tmux-0")).mode & 0o777).toBe(0o700);
});

describe("sessions and panes", () => {
  test("new session: with tags, size, folder, environment → observed as made, in one step", async () => {
    const { dir, tmux, raw } = box();
    const made = await tmux.newSession(sessionInput(dir));
    expect(await tmux.listSessions()).toEqual({
      known: true,
      value: [
        {
          id: made.sessionId,
          name: "kk-12345678-a",
          attached: 0,
          tags: { "@kiki_thread": "thread-1", "@kiki_op": "op-1" },
        },
      ],
    });
    const panes = await tmux.listPanes();
    if (!panes.known) throw new Error(panes.reason);
    expect(panes.value).toMatchObject([
      {
        id: made.paneId,
        sessionId: made.sessionId,
        dead: false,
        tags: { "@kiki_role": "agent", "@kiki_op": "op-1" },
      },
    ]);
    const pid = panes.value[0]!.pid;
    // The child may not have exec'd yet.
    const command = () => readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").slice(0, 2);
    await waitFor(() => command().join(" ") === "sleep 600", 5000, "the command itself, no shell");
    expect(realpathSync(`/proc/${pid}/cwd`)).toBe(dir);
    expect(readFileSync(`/proc/${pid}/environ`, "utf8").split("\0")).toContain("KIKI_X=1");
    expect(raw.ok("display-message", "-p", "-t", made.paneId, "#{pane_width}")).toBe("120");
  });

  test("new session: person's destroy-unattached and odd base indexes → it stays", async () => {
    const { dir, tmux } = box(
      "set -g destroy-unattached on\nset -g base-index 1\nset -g exit-empty off\n",
    );
    const { sessionId } = await tmux.newSession(sessionInput(dir));
    const sessions = await tmux.listSessions();
    expect(sessions).toMatchObject({ known: true, value: [{ id: sessionId }] });
  });

  test("new session: folder and arguments full of tmux's own syntax → taken literally", async () => {
    const { dir, tmux } = box();
    const cwd = join(dir, `a#{pid}#(touch ${"hacked"})##;`);
    mkdirSync(cwd);
    const out = join(dir, "out");
    await tmux.newSession({
      ...sessionInput(cwd),
      env: { V: "x #{pid};" },
      command: ["sh", "-c", 'printf "%s\\n" "$V" "$1" "$PWD" > "$0"; exec sleep 600', out, ";"],
    });
    const text = await waitFor(() => existsSync(out) && readFileSync(out, "utf8"), 5000, "output");
    expect(text).toBe(`x #{pid};\n;\n${cwd}\n`);
    expect(existsSync(join(dir, "hacked"))).toBe(false);
  });

  test("new session: a name somebody else has → tmux-duplicate, theirs is untouched", async () => {
    const { dir, tmux, raw } = box();
    raw.ok("new-session", "-d", "-s", "kk-12345678-a", "--", ...SLEEP);
    const error = await errorOf(tmux.newSession(sessionInput(dir)));
    expect(error.code).toBe("tmux-duplicate");
    expect(await tmux.listSessions()).toMatchObject({ known: true, value: [{ tags: {} }] });
  });

  test("new session: while the server ends with its last session → made by the next server", async () => {
    const { dir, tmux } = box();
    for (let i = 0; i < 10; i += 1) {
      const { sessionId } = await tmux.newSession(sessionInput(dir));
      await tmux.killSession(sessionId).catch(() => undefined);
    }
    expect((await tmux.newSession(sessionInput(dir))).paneId).toMatch(/^%\d+$/);
  });

  test("split: below, then right → tagged pane, focus where it was, a person's split has no tags", async () => {
    const { dir, tmux, raw } = box();
    const { paneId, sessionId } = await tmux.newSession(sessionInput(dir));
    const split = { cwd: dir, command: SLEEP, env: {}, sizePercent: 25 };
    const tags = { "@kiki_role": "shell", "@kiki_op": "op-1" };
    const below = await tmux.splitPane({ ...split, target: paneId, direction: "below", tags });
    await tmux.splitPane({
      ...split,
      target: sessionId,
      direction: "left",
      tags: { "@kiki_role": "sidebar" },
    });
    raw.ok("split-window", "-d", "-t", paneId, "--", ...SLEEP);

    const panes = await tmux.listPanes();
    if (!panes.known) throw new Error(panes.reason);
    const roles = panes.value.map((pane) => pane.tags["@kiki_role"] ?? "none");
    expect(roles.toSorted()).toEqual(["agent", "none", "shell", "sidebar"]);
    expect(panes.value.find((pane) => pane.id === below.paneId)?.tags).toEqual(tags);
    expect(panes.value.find((pane) => pane.tags["@kiki_role"] === undefined)?.tags).toEqual({});
    expect(raw.ok("display-message", "-p", "-t", `${sessionId}:`, "#{pane_id}")).toBe(paneId);
    expect(raw.ok("display-message", "-p", "-t", below.paneId, "#{pane_height}")).toBe("10");
  });

  test("capture: a pane that printed → its text; a pane that never was → unknown", async () => {
    const { dir, tmux } = box();
    const command = ["sh", "-c", "echo 'zażółć 日本'; exec sleep 600"];
    const { paneId } = await tmux.newSession({ ...sessionInput(dir), command });
    const text = await waitFor(
      async () => {
        const seen = await tmux.capturePane(paneId);
        return seen.known && seen.value.includes("zażółć 日本") && seen.value;
      },
      5000,
      "text in the pane",
    );
    expect(text.split("\n")[0]).toBe("zażółć 日本");
    expect((await tmux.capturePane("%77")).known).toBe(false);
  });

  test("capture: a line that a narrow pane wraps → one line", async () => {
    const { dir, tmux } = box();
    const line = "kiki: agent ended (exit code 3); the thread stays, its pane too";
    const command = ["sh", "-c", `echo 'no license'; echo '${line}'; exec sleep 600`];
    const input = { ...sessionInput(dir), columns: 40, command };
    const { paneId } = await tmux.newSession(input);
    const text = await waitFor(
      async () => {
        const seen = await tmux.capturePane(paneId);
        return seen.known && seen.value.includes("too") && seen.value;
      },
      5000,
      "text in the pane",
    );
    expect(text.split("\n").slice(0, 2)).toEqual(["no license", line]);
  });
});

describe("exact targets", () => {
  test("kill: session kk-x while kk-xy exists → only the one, gone already is success", async () => {
    const { dir, tmux, raw } = box();
    const mine = await tmux.newSession(sessionInput(dir, "bill"));
    raw.ok("new-session", "-d", "-s", "billing", "--", ...SLEEP);
    await tmux.killSession(mine.sessionId);
    await tmux.killSession(mine.sessionId);
    expect(await tmux.listSessions()).toMatchObject({ known: true, value: [{ name: "billing" }] });
  });

  test("kill: an id that now names somebody else's session → refused, theirs stays", async () => {
    const { tmux, raw } = box();
    raw.ok("new-session", "-d", "-s", "theirs", "--", ...SLEEP);
    const error = await errorOf(tmux.killSession("$0"));
    expect(error.code).toBe("tmux-foreign-session");
    expect(error.message).toContain("theirs");
    expect(raw.ok("list-sessions", "-F", "#{session_name}")).toBe("theirs");
  });

  test("kill: the server's last session → success though the server ends", async () => {
    const { dir, tmux } = box();
    const { sessionId } = await tmux.newSession(sessionInput(dir));
    await tmux.killSession(sessionId);
    const left = await waitFor(
      async () => {
        const sessions = await tmux.listSessions();
        return sessions.known && sessions;
      },
      5000,
      "a known list",
    );
    expect(left.value).toEqual([]);
    await tmux.killSession(sessionId);
  });

  test("targets: names, prefixes and option-like text → thrown, never handed to tmux", async () => {
    const { tmux } = box();
    for (const id of ["bill", "=bill", "$", "$1:", "%1", "-x", "$1\n"]) {
      expect(tmux.killSession(id)).rejects.toThrow("not an exact tmux target");
    }
    expect(() => tmux.attachCommand("bill", true)).toThrow("not an exact tmux target");
  });

  test("attach: inside and outside this server, with and without socket → exact argv", () => {
    const own = openTmux({ socket: "/run/x.sock", env: {} });
    expect(own.attachCommand("$3", true)).toEqual([
      "tmux",
      "-S",
      "/run/x.sock",
      "switch-client",
      "-t",
      "$3",
    ]);
    const usual = openTmux({ socket: null, env: {} });
    expect(usual.attachCommand("$3", false)).toEqual(["tmux", "attach-session", "-t", "$3"]);
  });
});

describe("what is known", () => {
  test("no server: never started, and ended → known to be empty", async () => {
    const { dir, tmux, raw } = box();
    expect(await tmux.listSessions()).toEqual({ known: true, value: [] });
    expect(await tmux.listPanes()).toEqual({ known: true, value: [] });
    await tmux.newSession(sessionInput(dir));
    await raw.kill();
    expect(await tmux.listPanes()).toEqual({ known: true, value: [] });
  });

  test("server without sessions (exit-empty off) → known to be empty", async () => {
    const { tmux, raw } = box();
    raw.ok("new-session", "-d", ";", "set-option", "-g", "exit-empty", "off", ";", "kill-session");
    expect(await tmux.listSessions()).toEqual({ known: true, value: [] });
    expect(await tmux.listPanes()).toEqual({ known: true, value: [] });
  });

  test("socket path that cannot be one → unknown, with tmux's reason", async () => {
    const { dir, env } = box();
    const tmux = openTmux({ socket: join(dir, "x".repeat(120)), env });
    const sessions = await tmux.listSessions();
    expect(sessions).toMatchObject({ known: false });
    expect(JSON.stringify(sessions)).toContain("File name too long");
  });

  /** A `tmux` on PATH that is a script. */
  function fake(script: string): { tmux: TmuxBackend; dir: string } {
    const { dir } = box();
    const bin = join(dir, "bin");
    mkdirSync(bin);
    writeFileSync(join(bin, "tmux"), `#!/bin/sh\n${script}\n`);
    chmodSync(join(bin, "tmux"), 0o755);
    const env = { PATH: `${bin}:${PATH}` };
    return { dir, tmux: openTmux({ socket: join(dir, "s"), env, timeoutMs: 300 }) };
  }

  test("server that never answers → unknown for lists, an error naming the skew for actions", async () => {
    const { dir, tmux } = fake("exec sleep 30");
    const sessions = await tmux.listSessions();
    expect(sessions.known).toBe(false);
    const error = await errorOf(tmux.newSession(sessionInput(dir)));
    expect(error.code).toBe("tmux-timeout");
    expect(error.message).toContain("another version");
    expect(error.hint).toContain("tmux -V");
  });

  test("server of another protocol → the same error at once", async () => {
    const { dir, tmux } = fake("echo 'protocol version mismatch (client 8, server 7)' >&2; exit 1");
    const error = await errorOf(tmux.newSession(sessionInput(dir)));
    expect(error.code).toBe("tmux-timeout");
    expect(error.message).toContain("client 8, server 7");
  });

  test("rc 0 with nothing, or half an answer → unknown, never absent", async () => {
    expect((await fake("exit 0").tmux.listSessions()).known).toBe(false);
    expect((await fake("echo '$0|0|||a'").tmux.listSessions()).known).toBe(false);
  });

  test("version: installed one accepted; too old and missing → named errors", async () => {
    expect(await box().tmux.checkVersion()).toMatch(/^\d+\.\d+/);
    const old = await errorOf(fake("echo 'tmux 3.1c'").tmux.checkVersion());
    expect([old.code, old.message]).toEqual([
      "tmux-too-old",
      "kiki needs tmux 3.2 or newer; this is tmux 3.1c",
    ]);
    const { dir } = box();
    const none = openTmux({ socket: null, env: { PATH: dir } });
    expect((await errorOf(none.checkVersion())).code).toBe("tmux-missing");
    expect((await none.listSessions()).known).toBe(false);
  });
});

describe("message", () => {
  test("display: a client looks at the session → it sees the text literally; nobody looks → no error", async () => {
    const { dir, tmux, raw } = box();
    const { sessionId } = await tmux.newSession(sessionInput(dir));
    await tmux.displayMessage(sessionId, "nobody sees this");

    // A client inside another server's pane, whose screen shows what the client draws.
    const outer = box();
    outer.raw.ok(
      "new-session",
      "-d",
      "-x",
      "100",
      "-y",
      "30",
      "--",
      "env",
      "-u",
      "TMUX",
      "tmux",
      "-S",
      raw.socket,
      "attach-session",
      "-t",
      sessionId,
    );
    await waitFor(() => raw.run("list-clients", "-F", "x").out === "x", 5000, "an attached client");
    raw.ok("set-option", "-g", "display-time", "0");
    await tmux.displayMessage(sessionId, "50%H #{pid} #(touch x);");
    await waitFor(
      () => outer.raw.run("capture-pane", "-p").out.includes("50%H #{pid} #(touch x);"),
      5000,
      () => `message on screen:\n${outer.raw.run("capture-pane", "-p").out}`,
    );
    await outer.raw.kill();
  });
});

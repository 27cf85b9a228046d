/** TmuxBackend: the fake server and a real one on a socket of the test's own. */
import { afterAll, expect } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { openTmux } from "../../src/backends/tmux/tmux.ts";
import type { KikiError } from "../../src/core/errors.ts";
import type { TmuxBackend, TmuxPane, TmuxSession } from "../../src/ports/tmux.ts";
import { FakeTmux } from "../fakes/tmux.ts";
import { contract, type Implementation } from "../support/contract.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { tmuxOn } from "../support/tmux.ts";
import { waitFor } from "../support/wait.ts";

afterAll(removeTempDirs);

interface Subject {
  tmux: TmuxBackend;
  cwd: string;
  fake: FakeTmux | null;
  /** A person's own session, by any name. */
  personSession(name: string): void;
  personPane(sessionId: string): void;
  personKills(name: string): void;
  serverDies(): Promise<void>;
  /** Makes a pane print a line. */
  print(paneId: string, text: string): void;
  /** Ends the process at the pane's root. */
  endProcess(pane: TmuxPane): void;
  /** Stops a pane's root process; whether tmux has made it run again. */
  stopLeader(pane: TmuxPane): Promise<boolean>;
  close(): Promise<void>;
}

function fakeSubject(): Subject {
  const alive = new Set<number>();
  const processes = {
    start: () => {
      const pid = 1000 + alive.size;
      alive.add(pid);
      return { pid };
    },
    end: (pid: number) => void alive.delete(pid),
  };
  const fake = new FakeTmux(processes);
  const find = (name: string): string => fake.sessions.find((s) => s.name === name)!.id;
  const paneOf = (id: string) => fake.panes.find((p) => p.id === id)!;
  return {
    tmux: fake,
    fake,
    cwd: "/ws",
    personSession: (name) => void fake.personSession(name),
    personPane: (sessionId) => void fake.personPane(sessionId),
    personKills: (name) => fake.personKills(find(name)),
    serverDies: async () => fake.serverDies(),
    print: (paneId, text) => void (paneOf(paneId).text += `${text}\n`),
    endProcess: (pane) => fake.killPane(paneOf(pane.id)),
    async stopLeader(pane) {
      let continued = false;
      fake.onContinue = () => (continued = true);
      fake.stopped(pane.pid);
      return continued;
    },
    close: async () => undefined,
  };
}

function realSubject(): Subject {
  const dir = tempDir("contract-tmux");
  const socket = join(dir, "s");
  const raw = tmuxOn(socket);
  const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin", HOME: dir, SHELL: "/bin/sh" };
  const state = (pid: number): string =>
    /\) (\w)/.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))?.[1] ?? "";
  return {
    tmux: openTmux({ socket, env }),
    fake: null,
    cwd: dir,
    personSession: (name) => void raw.ok("new-session", "-d", "-s", name, "--", "cat"),
    personPane: (sessionId) =>
      void raw.ok("split-window", "-d", "-t", `${sessionId}:`, "--", "cat"),
    personKills: (name) => void raw.ok("kill-session", "-t", `=${name}`),
    serverDies: () => raw.kill(),
    print: (paneId, text) => void raw.ok("send-keys", "-t", paneId, "-l", "--", `${text}\n`),
    endProcess: (pane) => process.kill(pane.pid, "SIGKILL"),
    async stopLeader(pane) {
      process.kill(pane.pid, "SIGSTOP");
      // Three looks apart: the first may come before the signal has stopped it.
      let running = 0;
      return waitFor(
        () => (running = state(pane.pid) === "T" ? 0 : running + 1) === 3,
        5000,
        "a pane leader that runs again",
      );
    },
    close: () => raw.kill(),
  };
}

const implementations: Implementation<Subject>[] = [
  { name: "fake", make: fakeSubject },
  {
    name: "real tmux",
    skip: Bun.which("tmux") === null ? "no tmux on PATH" : null,
    make: realSubject,
    dispose: (s) => s.close(),
  },
];

const sessionInput = (s: Subject, name: string, thread = "t-1") => ({
  name,
  cwd: s.cwd,
  command: ["/bin/cat"],
  env: { A: "1" },
  columns: 120,
  rows: 40,
  tags: { "@kiki_thread": thread, "@kiki_op": "op-1" },
  paneTags: { "@kiki_role": "agent", "@kiki_op": "op-1" },
});
const splitInput = (s: Subject, target: string) => ({
  target,
  direction: "below" as const,
  sizePercent: 25,
  cwd: s.cwd,
  command: ["/bin/cat"],
  env: {},
  tags: { "@kiki_role": "shell", "@kiki_op": "op-1" },
});

async function sessions(s: Subject): Promise<TmuxSession[]> {
  const seen = await s.tmux.listSessions();
  if (!seen.known) throw new Error(seen.reason);
  return seen.value;
}
async function panes(s: Subject): Promise<TmuxPane[]> {
  const seen = await s.tmux.listPanes();
  if (!seen.known) throw new Error(seen.reason);
  return seen.value;
}
const names = async (s: Subject): Promise<string[]> =>
  (await sessions(s)).map((x) => x.name).sort();
const codeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "nothing",
    (e: unknown) => (e as Partial<KikiError>).code ?? (e as Error).message,
  );

contract("tmux", implementations, [
  {
    name: "no server → known to be empty, not unknown",
    async run(s) {
      expect(await s.tmux.listSessions()).toEqual({ known: true, value: [] });
      expect(await s.tmux.listPanes()).toEqual({ known: true, value: [] });
    },
  },
  {
    name: "new session → its tags, its pane and the pane's tags are there with it",
    async run(s) {
      const made = await s.tmux.newSession(sessionInput(s, "kk-a"));
      const tags = { "@kiki_thread": "t-1", "@kiki_op": "op-1" };
      expect(await sessions(s)).toEqual([{ id: made.sessionId, name: "kk-a", attached: 0, tags }]);
      expect(await panes(s)).toMatchObject([
        {
          id: made.paneId,
          sessionId: made.sessionId,
          sessionName: "kk-a",
          dead: false,
          tags: { "@kiki_role": "agent", "@kiki_op": "op-1" },
        },
      ]);
    },
  },
  {
    name: "a name that is taken → tmux-duplicate, the other session is untouched",
    async run(s) {
      s.personSession("kk-a");
      expect(await codeOf(s.tmux.newSession(sessionInput(s, "kk-a")))).toBe("tmux-duplicate");
      expect(await sessions(s)).toMatchObject([{ name: "kk-a", tags: {} }]);
    },
  },
  {
    name: "names tmux alters in silence → refused for kiki's own; a person's are listed as altered",
    async run(s) {
      for (const name of ["a.b", "a:b", "-d", "=x", "a b", "a\nb", ""]) {
        expect(await codeOf(s.tmux.newSession(sessionInput(s, name)))).toContain(
          "not a session name",
        );
      }
      s.personSession("a.b:c");
      expect(await names(s)).toEqual(["a_b_c"]);
    },
  },
  {
    name: "session bill beside billing → only the one with the exact id is killed",
    async run(s) {
      s.personSession("billing");
      const mine = await s.tmux.newSession(sessionInput(s, "bill"));
      await s.tmux.killSession(mine.sessionId);
      expect(await names(s)).toEqual(["billing"]);
    },
  },
  {
    name: "targets that are no exact ids → thrown, nothing happens",
    async run(s) {
      await s.tmux.newSession(sessionInput(s, "kk-a"));
      for (const id of ["kk-a", "=kk-a", "$", "$0:", "%0", "-x", "$0\n"]) {
        expect(await codeOf(s.tmux.killSession(id))).toContain("not an exact tmux target");
      }
      expect(() => s.tmux.attachCommand("kk-a", true)).toThrow("not an exact tmux target");
      expect(await codeOf(s.tmux.splitPane(splitInput(s, "kk-a")))).toContain("not an exact");
      expect(await names(s)).toEqual(["kk-a"]);
    },
  },
  {
    name: "kill of a session that is gone → success, also without a server",
    async run(s) {
      s.personSession("other");
      const { sessionId } = await s.tmux.newSession(sessionInput(s, "kk-a"));
      await s.tmux.killSession(sessionId);
      await s.tmux.killSession(sessionId);
      s.personKills("other");
      await s.tmux.killSession(sessionId);
    },
  },
  {
    name: "kill of an id that is somebody else's now → tmux-foreign-session, theirs stays",
    async run(s) {
      const { sessionId } = await s.tmux.newSession(sessionInput(s, "kk-a"));
      await s.serverDies();
      s.personSession("theirs");
      expect((await sessions(s))[0]!.id).toBe(sessionId); // ids begin again with the server
      expect(await codeOf(s.tmux.killSession(sessionId))).toBe("tmux-foreign-session");
      expect(await names(s)).toEqual(["theirs"]);
    },
  },
  {
    name: "server gone → known to be empty; the next session begins with the first ids again",
    async run(s) {
      const first = await s.tmux.newSession(sessionInput(s, "kk-a"));
      await s.serverDies();
      expect(await sessions(s)).toEqual([]);
      const second = await s.tmux.newSession(sessionInput(s, "kk-b"));
      expect(second).toEqual(first);
    },
  },
  {
    name: "session killed from outside → its panes are gone from the list too",
    async run(s) {
      s.personSession("other");
      await s.tmux.newSession(sessionInput(s, "kk-a"));
      s.personKills("kk-a");
      expect(await names(s)).toEqual(["other"]);
      expect((await panes(s)).map((p) => p.sessionName)).toEqual(["other"]);
    },
  },
  {
    name: "split beside a pane and in a session → tagged panes; a person's split shows no tags",
    async run(s) {
      const { sessionId, paneId } = await s.tmux.newSession(sessionInput(s, "kk-a"));
      const below = await s.tmux.splitPane(splitInput(s, paneId));
      await s.tmux.splitPane({ ...splitInput(s, sessionId), direction: "right" });
      s.personPane(sessionId);
      const seen = await panes(s);
      expect(seen.map((p) => p.tags["@kiki_role"] ?? "none").sort()).toEqual(
        ["agent", "none", "shell", "shell"].sort(),
      );
      expect(seen.find((p) => p.id === below.paneId)!.sessionId).toBe(sessionId);
      expect(seen.filter((p) => p.tags["@kiki_role"] === undefined).map((p) => p.tags)).toEqual([
        {},
      ]);
      expect(new Set(seen.map((p) => p.id)).size).toBe(4);
    },
  },
  {
    name: "split of a pane or session that is not there → an error, nothing is made",
    async run(s) {
      await s.tmux.newSession(sessionInput(s, "kk-a"));
      expect(await codeOf(s.tmux.splitPane(splitInput(s, "%77")))).toBe("tmux-failed");
      expect(await codeOf(s.tmux.splitPane(splitInput(s, "$77")))).toBe("tmux-failed");
      expect(await panes(s)).toHaveLength(1);
    },
  },
  {
    name: "pane's process ends → the pane closes, with the last one the session",
    async run(s) {
      s.personSession("other");
      const { sessionId, paneId } = await s.tmux.newSession(sessionInput(s, "kk-a"));
      await s.tmux.splitPane(splitInput(s, paneId));
      const kept = (await panes(s)).find((p) => p.id !== paneId && p.sessionId === sessionId)!;
      s.endProcess((await panes(s)).find((p) => p.id === paneId)!);
      await waitFor(async () => (await panes(s)).length === 2, 5000, "a closed pane");
      s.endProcess(kept);
      await waitFor(async () => (await sessions(s)).length === 1, 5000, "a closed session");
      expect(await names(s)).toEqual(["other"]);
    },
  },
  {
    name: "pane leader stopped → tmux lets it run again at once",
    async run(s) {
      await s.tmux.newSession(sessionInput(s, "kk-a"));
      expect(await s.stopLeader((await panes(s))[0]!)).toBe(true);
    },
  },
  {
    name: "capture → the pane's text; of a pane that never was → unknown, not empty",
    async run(s) {
      const { paneId } = await s.tmux.newSession(sessionInput(s, "kk-a"));
      s.print(paneId, "zażółć 日本");
      await waitFor(
        async () => {
          const seen = await s.tmux.capturePane(paneId);
          return seen.known && seen.value.includes("zażółć 日本");
        },
        5000,
        "text in the pane",
      );
      expect((await s.tmux.capturePane("%77")).known).toBe(false);
    },
  },
  {
    name: "tags that could not be read back, a role on a session → thrown before anything is made",
    async run(s) {
      const input = sessionInput(s, "kk-a");
      const bad = [{ "@kiki_op": "a|b" }, { other: "x" }, { "@kiki_role": "agent" }];
      for (const tags of bad) {
        expect(await codeOf(s.tmux.newSession({ ...input, tags }))).toMatch(/not a tag|belongs on/);
      }
      expect(await sessions(s)).toEqual([]);
    },
  },
  {
    name: "attach and message → exact argv; a session nobody looks at takes a message in silence",
    async run(s) {
      const { sessionId } = await s.tmux.newSession(sessionInput(s, "kk-a"));
      expect(s.tmux.attachCommand(sessionId, true).slice(-3)).toEqual([
        "switch-client",
        "-t",
        sessionId,
      ]);
      expect(s.tmux.attachCommand(sessionId, false)).toContain("attach-session");
      await s.tmux.displayMessage(sessionId, "50% #{pid}\nsecond line");
      expect(await s.tmux.checkVersion()).toMatch(/^\d+\.\d+/);
    },
  },
  {
    name: "server that does not answer → lists are unknown, actions fail, nothing has happened",
    only: ["fake"],
    async run(s) {
      const fake = s.fake!;
      const { sessionId, paneId } = await s.tmux.newSession(sessionInput(s, "kk-a"));
      fake.mute = true;
      expect((await s.tmux.listSessions()).known).toBe(false);
      expect((await s.tmux.capturePane(paneId)).known).toBe(false);
      expect(await codeOf(s.tmux.newSession(sessionInput(s, "kk-b")))).toBe("tmux-timeout");
      expect(await codeOf(s.tmux.killSession(sessionId))).toBe("tmux-failed");
      fake.mute = false;
      expect(await names(s)).toEqual(["kk-a"]);
    },
  },
  {
    name: "answers that are empty or cut → unknown once, then known again",
    only: ["fake"],
    async run(s) {
      await s.tmux.newSession(sessionInput(s, "kk-a"));
      s.fake!.unsure = 2;
      expect((await s.tmux.listSessions()).known).toBe(false);
      expect((await s.tmux.listPanes()).known).toBe(false);
      expect(await names(s)).toEqual(["kk-a"]);
    },
  },
  {
    name: "answer of an action lost → the same error whether it was done or not; the list tells",
    only: ["fake"],
    async run(s) {
      const fake = s.fake!;
      for (const [how, made] of [
        ["done", ["kk-done"]],
        ["not-done", []],
      ] as const) {
        fake.lost.set("newSession", how);
        expect(await codeOf(s.tmux.newSession(sessionInput(s, "kk-done")))).toBe("tmux-timeout");
        expect(await names(s)).toEqual([...made]);
        fake.lost.set("killSession", how);
        for (const { id } of await sessions(s)) {
          expect(await codeOf(s.tmux.killSession(id))).toBe("tmux-timeout");
        }
        expect(await sessions(s)).toEqual([]);
        fake.lost.clear();
      }
    },
  },
  {
    name: "pane kept after its process's end → dead, or listed as alive where the end went unnoticed",
    only: ["fake"],
    async run(s) {
      await s.tmux.newSession(sessionInput(s, "kk-a"));
      const [pane] = s.fake!.panes;
      s.fake!.paneProcessEnds(pane!, false);
      expect((await panes(s))[0]!.dead).toBe(false);
      expect(await s.stopLeader(pane!)).toBe(true);
      s.fake!.paneProcessEnds(pane!);
      expect((await panes(s))[0]!.dead).toBe(true);
      expect(await s.stopLeader(pane!)).toBe(false);
    },
  },
  {
    name: "too old a version, a program by its name alone, a relative folder → refused",
    only: ["fake"],
    async run(s) {
      s.fake!.version = "3.1c";
      expect(await codeOf(s.tmux.checkVersion())).toBe("tmux-too-old");
      const input = sessionInput(s, "kk-a");
      expect(await codeOf(s.tmux.newSession({ ...input, command: ["cat"] }))).toContain("absolute");
      expect(await codeOf(s.tmux.newSession({ ...input, cwd: "ws" }))).toContain("absolute");
      expect(await sessions(s)).toEqual([]);
    },
  },
]);

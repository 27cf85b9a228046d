/**
 * Which conversation a replacement takes up, what it is started with, and what of another thread reaches it: the whole binary,
 * real jj, real tmux, the scripted agent.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  acknowledged,
  amend,
  detected,
  family,
  homeOf,
  inDb,
  intents,
  reached,
  story,
  type Family,
  type Home,
} from "../support/family.ts";
import { runAs } from "../support/jj-repo.ts";
import { environmentOf, LiveHook } from "../support/live-hook.ts";
import { bash, moments, read, say, touch, wait, type Moment } from "../support/scenario.ts";
import { thorough } from "../support/thorough.ts";
import { waitFor, waitForContent } from "../support/wait.ts";
import { initialised, type World } from "../support/world.ts";

setDefaultTimeout(180_000);
let w: World;
let home: Home;
beforeAll(async () => {
  w = await initialised();
  home = homeOf(w, w.repo);
});
afterAll(() => w.close());

interface Session {
  id: string;
  pid: number | null;
  conversation: string;
  fingerprint: string;
}

const sessions = (f: Family): Session[] =>
  inDb(home, (db) =>
    db
      .query<Session, [string]>(
        `SELECT agent_session_id AS id, pid, harness_session_id AS conversation,
           settings_fingerprint AS fingerprint
         FROM agent_sessions WHERE thread_id = ? ORDER BY rowid`,
      )
      .all(f.child.id),
  );

/** The child's agent was told at a refused call, and has not shown yet that it knows. */
async function told(name: string, end: readonly unknown[]): Promise<Family> {
  const f = await family(home, name, {
    resumed: [[bash(`${name}-2`, "touch went-on")], [say("done")]],
    before: [[read(`${name}-0`, `${name}.ts`)]],
    after: [
      [bash(`${name}-1`, `cp ${name}.ts ran.txt`)],
      [touch(w.signal(`${name}-told`)), ...end],
    ],
  });
  await amend(f, { [`${name}.ts`]: "v2\n" });
  await detected(f);
  f.go();
  await reached(home, `${name}-told`);
  await waitFor(() => intents(home, f.child)[0]!.state === "Delivered", 30_000, "delivered");
  return f;
}
const never = [wait("/nowhere/never"), say("never said")];

/** Typed by the person into the agent's pane. */
async function type(f: Family, ...keys: string[]): Promise<void> {
  w.tmux.ok("send-keys", "-t", await paneOf("agent", f.child.name), ...keys);
}

/** First inputs of the child's agents since its last start, in order. */
function promptsOf(f: Family): string[] {
  const all = moments(f.child.log) as (Moment & { prompt?: string })[];
  const start = all.map((m) => m.kind).lastIndexOf("session_start");
  return all.slice(start).flatMap((m) => (m.kind === "prompt" ? [m.prompt!] : []));
}

describe("the conversation of a replacement", () => {
  test("a person's own session in the same folder is the newest there → the thread's conversation is taken up, not that one", async () => {
    const f = await told("shared", never);
    const [before] = sessions(f);
    const theirs = crypto.randomUUID();
    const words = w.scenario("theirs", { responses: [[say("theirs")]] });
    const ran = await runAs(w.env, ["claude", "-p", "--session-id", theirs, words], f.child.path);
    expect([ran.code, ran.stdout]).toEqual([0, expect.stringContaining("theirs")]);
    const records = (readdirSync(w.dir, { recursive: true }) as string[]).filter((path) =>
      path.endsWith(".jsonl"),
    );
    const folderOf = (id: string): string =>
      records
        .find((path) => path.endsWith(`${id}.jsonl`))!
        .split("/")
        .slice(0, -1)
        .join("/");
    expect(folderOf(theirs)).toBe(folderOf(before!.conversation));
    process.kill(before!.pid!, "SIGKILL");
    await waitFor(
      () => promptsOf(f).some((p) => p.startsWith(intents(home, f.child)[0]!.payload!)),
      60_000,
      () => `told by its first input\n${story(home)}`,
    );
    expect(sessions(f).map((s) => s.conversation)).toEqual([
      before!.conversation,
      before!.conversation,
    ]);
  });

  thorough(
    "/clear, and the agent is killed before anything is said in the new conversation → neither of the two is taken up: a new one, told by its first input",
    async () => {
      const f = await told("cleared", [say("done")]);
      const [before] = sessions(f);
      await waitFor(() => moments(f.child.log).some((m) => m.kind === "stop"), 30_000, "idle");
      await type(f, "-l", "/clear");
      await type(f, "Enter");
      const cleared = await waitFor(
        () => {
          const { conversation } = sessions(f)[0]!;
          return conversation === before!.conversation ? null : conversation;
        },
        30_000,
        "another conversation",
      );
      process.kill(before!.pid!, "SIGKILL");
      await waitFor(
        () => promptsOf(f).some((p) => p.startsWith(intents(home, f.child)[0]!.payload!)),
        60_000,
        () => `told by its first input\n${JSON.stringify(sessions(f))}\n${story(home)}`,
      );
      const after = sessions(f);
      expect(after).toHaveLength(2);
      expect([before!.conversation, cleared]).not.toContain(after[1]!.conversation);
    },
  );
});

describe("generated settings edited while the agent runs", () => {
  test("a foreign pre-tool hook in the settings, the launcher emptied, then a replacement → both are written anew, and proved, before it starts; the foreign hook never runs", async () => {
    const f = await told("edited", never);
    const folder = join(home.state, "harness", f.child.id);
    const [settings, launcher] = [join(folder, "settings.json"), join(folder, "hook")];
    const [before] = sessions(f);
    const proved = (): Record<string, string> =>
      (JSON.parse(readFileSync(join(folder, "launch.json"), "utf8")) as Launch).files;
    const ran = join(w.dir, "foreign-ran");
    const foreign = { type: "command", command: `touch '${ran}'` };
    const edited = JSON.parse(readFileSync(settings, "utf8")) as Settings;
    edited.hooks.PreToolUse.push({ matcher: "*", hooks: [foreign] });
    writeFileSync(settings, JSON.stringify(edited));
    writeFileSync(launcher, "#!/bin/sh\nexit 0\n");
    process.kill(before!.pid!, "SIGKILL");
    await acknowledged(home, f.child, 1);
    const [, after] = sessions(f);
    expect(sessions(f)).toHaveLength(2);
    const now = JSON.parse(readFileSync(settings, "utf8")) as Settings;
    expect(now.hooks.PreToolUse).toHaveLength(edited.hooks.PreToolUse.length - 1);
    expect(JSON.stringify(now)).not.toContain(ran);
    expect(readFileSync(launcher, "utf8")).toContain(after!.id);
    // What was proved before the start is what lies there.
    const hashes = proved();
    for (const path of [settings, launcher])
      expect([path, hashes[path]]).toEqual([path, sha256(readFileSync(path))]);
    // Acknowledged by the call's hook, before the call itself runs.
    await waitFor(() => existsSync(join(f.child.path, "went-on")), 30_000, "the agent going on");
    expect(existsSync(ran)).toBe(false);
  });
});

describe("a thread started from inside another one", () => {
  thorough(
    "kk new in its shell pane → agent and shell get what is listed and their own names; no secret, token or id of the outer thread",
    async () => {
      const outer = await LiveHook.start(w, "outer");
      const { tmuxSessionId } = (await w.state("outer")).summary;
      // So high that a thread made from its lower pane has two panes of its own.
      w.tmux.ok("resize-window", "-t", tmuxSessionId!, "-x", "200", "-y", "140");
      const shell = await paneOf("shell", "outer");
      const credential = readFileSync(
        join(home.state, "credentials", outer.threadId),
        "utf8",
      ).trim();
      const leaks = {
        GITHUB_TOKEN: "leak-github",
        NPM_CONFIG__AUTH: "leak-npm",
        KIKI_INCARNATION_EXTRA: "leak-kiki",
        CLAUDE_CODE_SESSION_ID: "leak-session",
        BUN_OPTIONS: "",
        ANYTHING: "leak-anything",
      };
      const set = Object.entries(leaks).map(([name, value]) => `export ${name}='${value}'`);
      const script = join(w.dir, "inner.sh");
      const code = join(w.dir, "inner.code");
      writeFileSync(script, `${set.join("\n")}\nkk new inner --detach\necho $? > '${code}'\n`);
      w.tmux.ok("send-keys", "-t", shell, `sh '${script}'`, "Enter");
      await waitFor(
        () => w.tmux.ok("capture-pane", "-p", "-t", shell).includes("[y/N]"),
        60_000,
        () => `the question\n${w.tmux.ok("capture-pane", "-p", "-t", shell)}`,
      );
      w.tmux.ok("send-keys", "-t", shell, "y", "Enter");
      await waitForContent(code, "0\n", 60_000);
      const { threadId, lifecycle, followsName } = (await w.state("inner")).summary;
      expect([lifecycle, followsName]).toEqual(["Active", "outer"]);
      const { pid } = inDb(home, (db) =>
        db
          .query<{ pid: number }, [string]>("SELECT pid FROM agent_sessions WHERE thread_id = ?")
          .get(threadId),
      )!;
      const wrapper = w.tmux.ok(
        "display-message",
        "-p",
        "-t",
        await paneOf("shell", "inner"),
        "#{pane_pid}",
      );
      // A moment after it was forked the shell is still the wrapper's copy.
      const shellPid = await waitFor(
        () => {
          const children = readFileSync(`/proc/${wrapper}/task/${wrapper}/children`, "utf8").trim();
          const found = children.split(" ").find((child) => {
            return (
              child !== "" && readFileSync(`/proc/${child}/cmdline`, "utf8").startsWith("/bin/sh")
            );
          });
          return found === undefined ? null : Number(found);
        },
        30_000,
        () => `the shell\n${readFileSync(`/proc/${wrapper}/cmdline`, "utf8")}`,
      );
      const foreign = [
        outer.secret.KIKI_INCARNATION_SECRET,
        outer.incarnation,
        outer.threadId,
        outer.conversation,
        credential,
        outer.folder,
        ...Object.values(leaks).filter((value) => value !== ""),
      ];
      const person = Object.keys(w.env);
      for (const [who, of] of [
        ["agent", pid],
        ["shell", shellPid],
      ] as const) {
        const env = environmentOf(of);
        const text = JSON.stringify(env);
        expect([who, foreign.filter((value) => text.includes(value))]).toEqual([who, []]);
        // Everything else is the person's own and listed, kiki's, the harness's, or the pane's.
        const others = Object.keys(env).filter(
          (name) =>
            !person.includes(name) &&
            !/^(?:KIKI_|CLAUDE_CODE_|TMUX|TERM|COLORTERM|PWD|SHLVL|_$)/.test(name),
        );
        expect([who, others.sort()]).toEqual([who, []]);
      }
      expect(environmentOf(pid)["KIKI_THREAD_ID"]).toBe(threadId);
      expect(environmentOf(pid)["KIKI_INCARNATION_SECRET"]).not.toBe(
        outer.secret.KIKI_INCARNATION_SECRET,
      );
    },
  );
});

interface Settings {
  hooks: { PreToolUse: { matcher?: string; hooks: unknown[] }[] };
}

/** What kiki keeps of a launch that was proved: each generated file with its hash. */
interface Launch {
  files: Record<string, string>;
}

const sha256 = (bytes: Uint8Array): string =>
  new Bun.CryptoHasher("sha256").update(bytes).digest("hex");

async function paneOf(role: "agent" | "shell", thread: string): Promise<string> {
  const { tmuxSessionId } = (await w.state(thread)).summary;
  const panes = w.tmux.ok("list-panes", "-t", tmuxSessionId!, "-F", "#{@kiki_role} #{pane_id}");
  const line = panes.split("\n").find((one) => one.startsWith(`${role} `));
  if (line === undefined) throw new Error(`${thread} has no ${role} pane: ${panes}`);
  return line.slice(role.length + 1);
}

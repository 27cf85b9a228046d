/** The launcher that kiki generated for a live agent of a real world (world.ts), run as a harness would, or as it should not be. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { homeOf, inDb, type Home } from "./family.ts";
import { preToolUse, runProgram, type HookResult } from "./hook-runner.ts";
import { bash, say } from "./scenario.ts";
import { waitFor } from "./wait.ts";
import type { World } from "./world.ts";

/** What is recorded of one call that was asked about. */
export interface Admission {
  incarnation: string;
  id: string;
  admission: string;
}

interface SessionRow {
  id: string;
  pid: number;
  conversation: string;
}

export class LiveHook {
  readonly folder: string;
  readonly launcher: string;
  readonly home: Home;
  readonly name: string;
  readonly threadId: string;
  readonly incarnation: string;
  readonly conversation: string;
  readonly pid: number;
  readonly #errorLog: string;

  private constructor(home: Home, name: string, threadId: string, row: SessionRow) {
    this.home = home;
    this.name = name;
    this.threadId = threadId;
    this.incarnation = row.id;
    this.conversation = row.conversation;
    this.pid = row.pid;
    this.folder = join(home.state, "harness", threadId);
    this.launcher = join(this.folder, "hook");
    this.#errorLog = join(home.state, "errors", `${threadId}.log`);
  }

  /** A new thread whose agent has ended its first turn and waits for a person. */
  static async start(w: World, name: string): Promise<LiveHook> {
    const prompt = w.scenario(name, { responses: [[bash(`${name}-1`, "true")], [say("done")]] });
    const { threadId } = await w.newThread([name, "-m", prompt]);
    await waitFor(
      async () => (await w.state(name)).summary.agent === "finished",
      60_000,
      `${name} waits`,
    );
    const home = homeOf(w, w.repo);
    const row = inDb(home, (db) =>
      db
        .query<SessionRow, [string]>(
          `SELECT agent_session_id AS id, pid, harness_session_id AS conversation
           FROM agent_sessions WHERE thread_id = ? AND retired_at IS NULL`,
        )
        .get(threadId),
    )!;
    return new LiveHook(home, name, threadId, row);
  }

  /** Everything the agent's process was started with. */
  get env(): Record<string, string> {
    return environmentOf(this.pid);
  }

  /** The one thing a hook proves itself by. */
  get secret(): { KIKI_INCARNATION_SECRET: string } {
    return { KIKI_INCARNATION_SECRET: this.env["KIKI_INCARNATION_SECRET"]! };
  }

  get barrier(): string {
    return join(this.folder, "barrier");
  }

  run(
    event: string,
    payload: string,
    env: Record<string, string>,
    at: { cwd?: string; launcher?: string } = {},
  ): Promise<HookResult> {
    return runProgram([at.launcher ?? this.launcher, event], payload, env, at.cwd ?? "/");
  }

  /** A call's payload, in the agent's own conversation. */
  call(id: string): string {
    return preToolUse(id, { session_id: this.conversation });
  }

  /** Files that say a call passed without anybody asked. */
  passed(): string[] {
    return visible(join(this.folder, "passed"));
  }

  spooled(): string[] {
    return visible(join(this.folder, "spool"));
  }

  log(): string {
    return existsSync(this.#errorLog) ? readFileSync(this.#errorLog, "utf8") : "";
  }

  /** Calls that were admitted, of whatever incarnation, by a pattern of SQL. */
  admissions(like: string): Admission[] {
    return inDb(this.home, (db) =>
      db
        .query<Admission, [string]>(
          `SELECT agent_session_id AS incarnation, tool_use_id AS id, admission
           FROM tool_admissions WHERE tool_use_id LIKE ? ORDER BY rowid`,
        )
        .all(like),
    );
  }

  /** Processes of this incarnation's pre-tool hooks: launchers (`sh <launcher> PreToolUse`) and what they run. */
  processes(): { pid: number; argv: string[] }[] {
    const found: { pid: number; argv: string[] }[] = [];
    for (const name of readdirSync("/proc")) {
      if (!/^\d+$/.test(name)) continue;
      try {
        const argv = readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0");
        if (!argv.includes("PreToolUse")) continue;
        const own =
          argv.includes(this.launcher) ||
          environmentOf(Number(name))["KIKI_INCARNATION"] === this.incarnation;
        if (own) found.push({ pid: Number(name), argv });
      } catch {
        // it ended while it was looked at
      }
    }
    return found;
  }
}

/** Reason of a printed refusal; throws when it is none. */
export function refusalOf(result: HookResult): string {
  const { hookSpecificOutput: verdict } = JSON.parse(result.stdout) as {
    hookSpecificOutput: { permissionDecision: string; permissionDecisionReason: string };
  };
  if (verdict.permissionDecision !== "deny") throw new Error(`no refusal: ${result.stdout}`);
  return verdict.permissionDecisionReason;
}

/** What a process was started with. */
export function environmentOf(pid: number): Record<string, string> {
  const entries = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").filter(Boolean);
  return Object.fromEntries(
    entries.map((entry) => {
      const at = entry.indexOf("=");
      return [entry.slice(0, at), entry.slice(at + 1)];
    }),
  );
}

function visible(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder).filter((name) => !name.startsWith(".")) : [];
}

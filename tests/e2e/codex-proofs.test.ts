/** Versions of Codex that kiki was not released with: what `kk new` does with each, and what `kk doctor` says. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { statePaths } from "../../src/core/paths.ts";
import { codexShim, type CodexBehaviour } from "../support/codex-shim.ts";
import { codexLogin } from "../support/codex-thread.ts";
import { runAs } from "../support/jj-repo.ts";
import { onTerminal, type TerminalResult } from "../support/person.ts";
import { bash, say } from "../support/scenario.ts";
import { thorough } from "../support/thorough.ts";
import { initialised, type World } from "../support/world.ts";
import { waitForNoProcess } from "../support/wait.ts";

setDefaultTimeout(180_000);
let w: World;
beforeAll(async () => {
  w = await initialised();
  codexLogin(w);
});
afterAll(() => w.close());

/** The person's environment with that version of `codex` first on PATH. */
function withVersion(behaviour: CodexBehaviour): Record<string, string> {
  return { ...w.env, PATH: `${codexShim(w.dir, behaviour)}:${w.env["PATH"]}` };
}

function kkNew(behaviour: CodexBehaviour, name: string): Promise<TerminalResult> {
  const prompt = w.scenario(name, { responses: [[bash("c1", "echo begun")], [say("done")]] });
  const words = ["kk", "new", name, "--harness", "codex", "-m", prompt, "--detach"];
  return onTerminal(withVersion(behaviour), words, "y", w.repo.root);
}

/** What `kk doctor` says of Codex, in one line. */
async function doctor(behaviour: CodexBehaviour): Promise<{ ok: boolean; detail: string }> {
  const result = await runAs(withVersion(behaviour), ["kk", "doctor", "--json"], w.repo.root);
  const { lines } = JSON.parse(result.stdout) as {
    lines: { name: string; ok: boolean; detail: string }[];
  };
  const [line] = lines.filter(({ name }) => name === "codex");
  if (line === undefined) throw new Error(result.stdout);
  return { ok: line.ok, detail: line.detail };
}

const flat = (screen: string): string => screen.replace(/\s+/g, " ");

/** Capabilities of the thread's newest incarnation. */
function capabilities(name: string): Record<string, boolean> {
  const repos = join(w.stateDir, "repos");
  const db = new Database(join(repos, readdirSync(repos)[0]!, "state.db"), { readonly: true });
  try {
    const row = db
      .query<{ json: string }, [string]>(
        `SELECT capabilities_json AS json FROM agent_sessions JOIN threads USING (thread_id)
         WHERE name = ? ORDER BY agent_sessions.rowid DESC LIMIT 1`,
      )
      .get(name);
    return JSON.parse(row?.json ?? "{}") as Record<string, boolean>;
  } finally {
    db.close();
  }
}

test("an unknown version that behaves → proved here, the thread is Active with a boundary, kk doctor says so", async () => {
  expect(await doctor("behaves")).toMatchObject({
    ok: true,
    detail: expect.stringContaining("the first kk new looks at what it can do") as string,
  });
  const made = await kkNew("behaves", "well");
  expect([made.code, made.screen]).toEqual([0, expect.stringContaining("created well")]);
  expect(flat(made.screen)).toContain("codex 0.999.0");
  expect(flat(made.screen)).toContain("what it can do was proved on this machine");
  expect(flat(made.screen)).not.toContain("degraded");
  expect((await w.threads()).find((t) => t.name === "well")?.lifecycle).toBe("Active");
  expect(capabilities("well")).toMatchObject({
    exclusive_pre_tool_use: true,
    parallel_batch_boundary: true,
    restart_startup_delivery: true,
    mcp_client: false,
  });
  const { ok, detail } = await doctor("behaves");
  expect(ok).toBe(true);
  expect(detail).toMatch(
    /^0\.999\.0 \(.*\): proved here, \d{4}-.*; not proved: mcp_client \(it did not/,
  );
});

thorough(
  "an unknown version that allows parallel calls → restart-only, said in the plan and by kk doctor",
  async () => {
    const why = "it lets its model ask for several calls at a time";
    const made = await kkNew("parallel-calls", "plain");
    expect([made.code, made.screen]).toEqual([0, expect.stringContaining("created plain")]);
    expect(flat(made.screen)).toContain(
      "degraded restart-only: its agent is told about changes only",
    );
    expect(flat(made.screen)).toContain(why);
    expect(capabilities("plain")).toMatchObject({
      exclusive_pre_tool_use: true,
      parallel_batch_boundary: false,
      restart_startup_delivery: true,
    });
    const { ok, detail } = await doctor("parallel-calls");
    expect(ok).toBe(true);
    expect(detail).toContain("restart-only:");
    expect(detail).toContain(why);
  },
);

for (const [behaviour, why] of [
  ["runs-project-hooks", "kiki cannot prove that its hook is the only one (hooks that are not"],
  ["knows-no-daemon", "(it does not take the command line that kiki starts it with: error:"],
] as const)
  (behaviour === "runs-project-hooks" ? test : thorough)(
    `an unknown version, ${behaviour} → refused before anything is made, with the reason`,
    async () => {
      const made = await kkNew(behaviour, "loud");
      expect(made.code).not.toBe(0);
      expect(flat(made.screen)).toContain("codex 0.999.0: ");
      expect(flat(made.screen)).toContain(why);
      expect((await w.threads()).some((t) => t.name === "loud")).toBe(false);
      const { ok, detail } = await doctor(behaviour);
      expect(ok).toBe(false);
      expect(detail).toContain("refused: no thread can run with it");
      expect(detail).toContain(why.slice(why.indexOf("(") + 1));
    },
  );

thorough(
  "an unknown version that does not answer → refused within the limit; no process and no folder is left",
  async () => {
    const made = await kkNew("hangs", "stuck");
    expect(made.code).not.toBe(0);
    expect(flat(made.screen)).toContain("it did not come to an end within 20 s");
    const { proofs } = statePaths(w.stateDir);
    expect(readdirSync(proofs)).toEqual([]);
    await waitForNoProcess(`${proofs}/`);
  },
);

test("nothing of it is in the person's ~/.codex", () => {
  expect(readdirSync(join(w.env["HOME"]!, ".codex"))).toEqual(["auth.json"]);
});

/** Versions of a harness that kiki was not released with: what `kk new` does with each, and what `kk doctor` says. */
import { Database } from "bun:sqlite";
import { readdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { statePaths } from "../../src/core/paths.ts";
import { openUserDb } from "../../src/store/open.ts";
import { claudeShim, type ShimBehaviour } from "../support/claude-shim.ts";
import { runAs } from "../support/jj-repo.ts";
import { onTerminal, type TerminalResult } from "../support/person.ts";
import { thorough } from "../support/thorough.ts";
import { initialised, type World } from "../support/world.ts";
import { waitForNoProcess } from "../support/wait.ts";

setDefaultTimeout(120_000);
let w: World;
beforeAll(async () => {
  w = await initialised();
});
afterAll(() => w.close());

/** The person's environment with that version of `claude` first on PATH. */
function withVersion(behaviour: ShimBehaviour): Record<string, string> {
  return { ...w.env, PATH: `${claudeShim(w.dir, behaviour)}:${w.env["PATH"]}` };
}

function kkNew(behaviour: ShimBehaviour, name: string): Promise<TerminalResult> {
  const env = withVersion(behaviour);
  return onTerminal(env, ["kk", "new", name, "--detach"], "y", w.repo.root);
}

/** What `kk doctor` says of the harness, in one line. */
async function doctor(behaviour: ShimBehaviour): Promise<{ ok: boolean; detail: string }> {
  const result = await runAs(withVersion(behaviour), ["kk", "doctor", "--json"], w.repo.root);
  const { lines } = JSON.parse(result.stdout) as {
    lines: { name: string; ok: boolean; detail: string }[];
  };
  const [line] = lines.filter((one) => one.name === "claude-code");
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

test("a version the gate ran → kk doctor says so", async () => {
  const result = await runAs(w.env, ["kk", "doctor"], w.repo.root);
  expect(result.stdout).toMatch(
    /✓ claude-code +2\.1\.332 \(.*claude\): proved by the release gate\n/,
  );
});

test("an unknown version that behaves → proved once, the thread is Active, kk doctor says where and when", async () => {
  expect(await doctor("behaves")).toMatchObject({
    ok: true,
    detail: expect.stringContaining("the first kk new looks at what it can do") as string,
  });
  const made = await kkNew("behaves", "well");
  expect([made.code, made.screen]).toEqual([0, expect.stringContaining("created well")]);
  expect(flat(made.screen)).toContain("claude-code 2.1.999");
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
    /^2\.1\.999 \(.*\): proved here, \d{4}-.*; not proved: mcp_client \(it did not/,
  );
  const db = openUserDb(statePaths(realpathSync(w.stateDir)).userDb);
  const runs = db
    .query("SELECT source, count(*) AS n FROM harness_proof_runs GROUP BY source")
    .all();
  db.close();
  expect(runs).toContainEqual({ source: "quick", n: 1 });
});

test("an unknown version that runs a project's hooks → refused before anything is made, with the reason", async () => {
  const made = await kkNew("runs-project-hooks", "loud");
  expect(made.code).not.toBe(0);
  expect(flat(made.screen)).toContain(
    "claude-code 2.1.999: kiki cannot prove that its hook is the only one (hooks that are not kiki's ran in it:",
  );
  expect((await w.threads()).some((t) => t.name === "loud")).toBe(false);
  const { ok, detail } = await doctor("runs-project-hooks");
  expect(ok).toBe(false);
  expect(detail).toContain("refused: no thread can run with it");
  expect(detail).toContain("hooks that are not kiki's ran in it: project-");
});

for (const [behaviour, name, why] of [
  ["no-batch-event", "plain", "it does not say when the calls of a response are over"],
  ["cuts-denies", "short", "its model does not get a refusal as it was written"],
] as const) {
  test(`an unknown version, ${behaviour} → restart-only, said in the plan and by kk doctor`, async () => {
    const made = await kkNew(behaviour, name);
    expect([made.code, made.screen]).toEqual([0, expect.stringContaining(`created ${name}`)]);
    expect(flat(made.screen)).toContain(
      "degraded restart-only: its agent is told about changes only",
    );
    expect(flat(made.screen)).toContain(why);
    expect(capabilities(name)).toMatchObject({
      exclusive_pre_tool_use: true,
      parallel_batch_boundary: false,
      restart_startup_delivery: true,
    });
    const { ok, detail } = await doctor(behaviour);
    expect(ok).toBe(true);
    expect(detail).toContain("restart-only:");
    expect(detail).toContain(why);
  });
}

thorough(
  "an unknown version that does not answer → refused within the limit; no process and no folder is left",
  async () => {
    const made = await kkNew("hangs", "stuck");
    expect(made.code).not.toBe(0);
    expect(flat(made.screen)).toContain("it did not come to an end within 20 s");
    expect((await doctor("hangs")).detail).toContain("it did not come to an end within 20 s");
    expect(readdirSync(statePaths(w.stateDir).proofs)).toEqual([]);
    await waitForNoProcess(`${statePaths(w.stateDir).proofs}/`);
  },
);

/** The quick proofs of Codex on the scripted agent, and on versions of it that differ in one behaviour each. */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, readdirSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CodexHarness } from "../../../src/backends/harness/codex/adapter.ts";
import { PROOF_NAMES } from "../../../src/backends/harness/codex/proven.ts";
import { capabilitiesOf, lacking, standingOf, type Proof } from "../../../src/core/proofs.ts";
import { codexShim, UNKNOWN_CODEX, type CodexBehaviour } from "../../support/codex-shim.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";
import { thorough } from "../../support/thorough.ts";
import { waitForNoProcess } from "../../support/wait.ts";

setDefaultTimeout(90_000);
afterAll(removeTempDirs);

interface Run {
  proofs: readonly Proof[];
  folder: string;
  /** Outcome and reason of all that were not proved. The scripted agent starts no MCP servers. */
  unproved: Record<string, string>;
  standing: string;
}

/** Runs the proofs as the daemon does; the folder is kept for a look. */
async function prove(
  behaviour: CodexBehaviour,
  options: { timeoutMs?: number; managed?: string } = {},
): Promise<Run> {
  const dir = realpathSync(tempDir("codex-quick"));
  const folder = join(dir, "run");
  mkdirSync(folder, { mode: 0o700 });
  const { timeoutMs = 60_000, managed = join(dir, "managed") } = options;
  const proofs = await new CodexHarness({ managedFolder: managed }).prove({
    executable: join(codexShim(dir, behaviour), "codex"),
    version: UNKNOWN_CODEX,
    env: { PATH: process.env["PATH"] ?? "", CODEX_API_KEY: "the person's", HOME: "/root" },
    folder,
    timeoutMs,
  });
  expect(proofs.map(({ name }) => name)).toEqual([...PROOF_NAMES]);
  const open = proofs.filter(({ name, outcome }) => outcome !== "proved" && name !== "mcp-server");
  return {
    proofs,
    folder,
    unproved: Object.fromEntries(open.map((p) => [p.name, `${p.outcome}: ${p.reason}`])),
    standing: standingOf(capabilitiesOf(proofs)),
  };
}

describe("quick proofs of Codex", () => {
  test("an unknown version that behaves → all proved, the denied tools left no trace, no foreign hook ran", async () => {
    const { proofs, folder, unproved, standing } = await prove("behaves");
    expect(unproved).toEqual({});
    expect([standing, lacking(capabilitiesOf(proofs))]).toEqual(["full", ["mcp_client"]]);
    expect(readdirSync(join(folder, "decoys"))).toEqual([]);
    expect(readdirSync(join(folder, "project/traces")).sort()).toEqual([
      "call_kiki_again",
      "call_kiki_background",
      "call_kiki_first",
      "call_kiki_second",
    ]);
    await waitForNoProcess(`${folder}/`);
  });

  test("nothing of the person's reaches it: no key, no home, no login", async () => {
    const { folder } = await prove("behaves");
    const env = await Bun.file(join(folder, "hooks/1000/env")).text();
    expect(env).toContain(`\nHOME=${folder}/home\n`);
    expect(env).not.toContain("CODEX_API_KEY");
    // Whoever else it would ask is asked through the scripted model, which answers nobody.
    expect(env).toMatch(/^HTTPS_PROXY=http:\/\/127\.0\.0\.1:\d+$/m);
    expect(readdirSync(join(folder, "harness/codex-home"))).not.toContain("auth.json");
    expect(readdirSync(join(folder, "home/.codex")).sort()).toEqual(["config.toml", "hooks.json"]);
  });

  /** The others, judged in codex-quick-judge.test.ts, are left to a thorough suite; e2e/codex-proofs.test.ts has one more. */
  const ALWAYS: readonly CodexBehaviour[] = ["parallel-calls"];
  const one: [CodexBehaviour, string, Record<string, RegExp>][] = [
    [
      "runs-project-hooks",
      "refused",
      { "exclusive-hooks": /^failed: hooks that are not kiki's ran in it: project-json-/ },
    ],
    [
      "parallel-calls",
      "restart-only",
      { "serial-calls": /^failed: it lets its model ask for several calls at a time/ },
    ],
    [
      "cuts-denies",
      "restart-only",
      {
        "deny-fidelity":
          /^failed: its model does not get a refusal as it was written: \d+ characters of/,
        "session-record": /^failed: its session record does not have what its model gets/,
      },
    ],
    [
      "ignores-denies",
      "refused",
      { "deny-blocks": /^failed: it ran Bash, which/, "deny-fidelity": /^failed: its model/ },
    ],
    [
      "fails-open",
      "restart-only",
      { "fail-closed": /^failed: it ran a call whose hook had died$/ },
    ],
    [
      "forgets-turns",
      "boundary-only",
      { "startup-echo": /^failed: the prompt it shows has no turn$/ },
    ],
    [
      "numbers-nothing",
      "restart-only",
      { "session-record": /^failed: .*which calls are of one response$/ },
    ],
    [
      "begins-anew",
      "full",
      { resume: /^failed: resumed, its conversation has another id or record$/ },
    ],
    [
      "knows-no-daemon",
      "refused",
      {
        "command-line": /^failed: .* unexpected argument '--no-daemon' found$/,
        "startup-echo": /^not-tried: on a terminal it ended with exit code 2: error: unexpected/,
        resume: /^not-tried: on a terminal it ended with exit code 2: error: unexpected/,
      },
    ],
  ];
  for (const [behaviour, expected, reasons] of one)
    (ALWAYS.includes(behaviour) ? test : thorough)(
      `a version that differs, ${behaviour} → ${expected}, with the reason`,
      async () => {
        const { unproved, standing } = await prove(behaviour);
        expect(Object.keys(unproved)).toEqual(Object.keys(reasons));
        for (const [name, reason] of Object.entries(reasons))
          expect(unproved[name]).toMatch(reason);
        expect(standing).toBe(expected);
      },
    );

  thorough("lists kiki's hooks and runs none → refused", async () => {
    const { unproved, standing } = await prove("asks-nobody");
    expect(unproved["exclusive-hooks"]).toBe(
      "failed: kiki's hooks did not run in it, although it lists them",
    );
    expect(standing).toBe("refused");
  });

  test("does not answer → ended within the limit, nothing tried but its command line, no process left", async () => {
    const began = performance.now();
    const { folder, unproved, standing } = await prove("hangs", { timeoutMs: 6_000 });
    expect(performance.now() - began).toBeLessThan(20_000);
    const { "command-line": _, ...others } = unproved;
    expect([...new Set(Object.values(others))]).toEqual([
      "not-tried: it did not come to an end within 6 s",
    ]);
    expect(standing).toBe("refused");
    await waitForNoProcess(`${folder}/`);
  });

  thorough("ends at once → nothing tried, in its own words", async () => {
    const { unproved } = await prove("dies");
    const reasons = new Set(Object.values(unproved));
    expect([...reasons]).toEqual(["not-tried: it ended with exit code 3: Error: cannot go on"]);
  });

  test("a managed hook on the machine → not exclusive, naming the file; the program is not started", async () => {
    const managed = tempDir("managed");
    const hooks = { PreToolUse: [{ hooks: [{ type: "command", command: "foreign" }] }] };
    writeFileSync(join(managed, "hooks.json"), JSON.stringify({ hooks }));
    const { folder, unproved, standing } = await prove("behaves", { managed });
    expect(unproved["exclusive-hooks"]).toMatch(/^failed: .*hooks\.json/);
    expect(standing).toBe("refused");
    expect(readdirSync(join(folder, "hooks"))).toEqual([]);
  });
});

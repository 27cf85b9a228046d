/** One row for each version: one that behaves, and one for each behaviour that kiki relies on and that is missing. */
import { mkdirSync, readdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { CodexHarness } from "../../../src/backends/harness/codex/adapter.ts";
import { nativeProgram } from "../../../src/backends/harness/codex/program.ts";
import {
  capabilitiesOf,
  CAPABILITIES,
  lacking,
  standingOf,
  type Capability,
  type Proof as QuickProof,
  type Standing,
} from "../../../src/core/proofs.ts";
import { PROVE_TIMEOUT_MS } from "../../../src/lifecycle/proving.ts";
import { codexShim, UNKNOWN_CODEX, type CodexBehaviour } from "../../support/codex-shim.ts";
import { codex } from "../codex-row.ts";
import { CODEX, CODEX_VERSION } from "../install.ts";
import type { Proof, ProofRun } from "../proof.ts";

/** The gate asks what the program does, not how fast this machine is. */
const PATIENCE = 6;

interface Looked {
  proofs: readonly QuickProof[];
  standing: Standing;
  /** Names of proofs that were not made. */
  unproved: readonly string[];
  decoys: readonly string[];
  seen: string;
}

/** The real program behind one that says another version of it. */
async function look(run: ProofRun, behaviour: CodexBehaviour): Promise<Looked> {
  const dir = realpathSync(run.folder);
  const folder = join(dir, "run");
  mkdirSync(folder, { mode: 0o700 });
  const harness = new CodexHarness({ managedFolder: join(dir, "no-policy") });
  const executable = join(codexShim(dir, behaviour, nativeProgram(CODEX)), "codex");
  const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };
  const version = await harness.version(executable, env);
  if (version !== UNKNOWN_CODEX || harness.gateProofs(version) !== null)
    throw new Error(`${version} is no version that the gate knows nothing of`);
  const began = performance.now();
  const timeoutMs = PROVE_TIMEOUT_MS * PATIENCE;
  const proofs = await harness.prove({ executable, version, env, folder, timeoutMs });
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  const open = proofs.filter(({ outcome }) => outcome !== "proved");
  const standing = standingOf(capabilitiesOf(proofs));
  const words = open.map(({ name, outcome, reason }) => `${name} ${outcome}: ${reason}`);
  return {
    proofs,
    standing,
    unproved: open.map(({ name }) => name),
    decoys: readdirSync(join(folder, "decoys")),
    seen: [`${seconds} s, ${standing}`, ...words].join("; "),
  };
}

const names = (list: readonly { name: string }[] | null): string =>
  (list ?? []).map(({ name }) => name).join();

const behaves = codex(
  "quick-behaves",
  "a version kiki does not know that behaves passes every proof that stands for the released one, and no hook but kiki's runs",
  "a project's hooks run in it",
  CAPABILITIES,
  async (run) => {
    const { proofs, unproved, decoys, seen } = await look(
      run,
      run.inverted ? "runs-project-hooks" : "behaves",
    );
    const same = names(new CodexHarness().gateProofs(CODEX_VERSION)) === names(proofs);
    const all = lacking(capabilitiesOf(proofs)).length === 0;
    return { holds: same && all && unproved.length === 0 && decoys.length === 0, seen };
  },
);

/** What is found of a version, and what kiki then does with it; `without`: a capability that is gone. */
function differs(
  behaviour: CodexBehaviour,
  what: string,
  standing: Standing,
  unproved: readonly string[],
  without?: Capability,
): Proof {
  const end = without === undefined ? standing : `${standing}, without ${without}`;
  return codex(
    `quick-${behaviour}`,
    `${what}: found, and nothing else; ${end}`,
    "the program as it is",
    [],
    async (run) => {
      const found = await look(run, run.inverted ? "behaves" : behaviour);
      const can = capabilitiesOf(found.proofs);
      return {
        holds:
          found.standing === standing &&
          found.unproved.join() === unproved.join() &&
          (without === undefined || !can[without]),
        seen: found.seen,
      };
    },
  );
}

export const quick: readonly Proof[] = [
  behaves,
  differs("runs-project-hooks", "a project's hooks run", "refused", ["exclusive-hooks"]),
  differs(
    "asks-nobody",
    "it lists kiki's hooks and does not run the one before a tool",
    "refused",
    [
      "exclusive-hooks",
      "pre-tool-hooks",
      "deny-blocks",
      "deny-fidelity",
      "serial-calls",
      "session-record",
      "fail-closed",
      "startup-echo",
      "mcp-server",
    ],
  ),
  differs("knows-no-daemon", "an option of kiki's is unknown to it", "refused", [
    "command-line",
    "startup-echo",
    "resume",
  ]),
  differs("has-helpers", "its model has tools that kiki does not know", "refused", [
    "pre-tool-hooks",
  ]),
  differs("ignores-denies", "it runs what it is told to refuse", "refused", [
    "deny-blocks",
    "deny-fidelity",
  ]),
  differs("parallel-calls", "its requests allow several calls at a time", "restart-only", [
    "serial-calls",
  ]),
  differs("cuts-denies", "its model gets refusals cut", "restart-only", [
    "deny-fidelity",
    "session-record",
  ]),
  differs("fails-open", "a call runs whose hook died", "restart-only", ["fail-closed"]),
  differs("feeds-terminals", "a running command can be told more, unasked", "restart-only", [
    "unasked-input",
  ]),
  differs("numbers-nothing", "its record does not tell responses apart", "restart-only", [
    "session-record",
  ]),
  differs("forgets-turns", "the prompt it shows has no turn", "boundary-only", ["startup-echo"]),
  differs("begins-anew", "resumed, it begins anew", "full", ["resume"], "session_resume"),
];

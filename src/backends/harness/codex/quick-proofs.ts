/**
 * The quick proofs of Codex: what it says of itself without being asked for a turn. A launch as kiki prepares it, in a
 * home and a workspace of its own, shows whether its hooks would be the only ones; what only a turn can show is not
 * tried, so a version that was never run on the real program starts no thread.
 */
import { realpathSync } from "node:fs";
import { join } from "node:path";
import { errorLine, KikiError } from "../../../core/errors.ts";
import type { Proof } from "../../../core/proofs.ts";
import type { LaunchRequest, ProofRequest } from "../../../ports/harness.ts";
import { baseEnv } from "../../exec.ts";
import { ensureDir, writeDurable } from "../../files.ts";
import { prepareLaunch, type Machine } from "./launch.ts";
import { PROOF_NAMES, proof } from "./proven.ts";

const NEEDS_A_TURN =
  "kiki has no quick proof for it: only a turn of this version of Codex would show it";
/** What was seen and must not be; with anything else nothing was seen. */
const REFUTED = new Set(["hooks-not-exclusive", "codex-settings", "codex-home"]);

/** Never throws. */
export async function quickProofs(request: ProofRequest, machine: Machine): Promise<Proof[]> {
  const exclusive = await looked(request, machine);
  return PROOF_NAMES.map((name) =>
    name === exclusive.name ? exclusive : proof(name, "not-tried", NEEDS_A_TURN),
  );
}

async function looked(request: ProofRequest, machine: Machine): Promise<Proof> {
  const deadline = performance.now() + request.timeoutMs;
  try {
    await prepareLaunch(launchRequest(request), machine, deadline);
    return proof(
      "exclusive-hooks",
      "proved",
      "Codex lists kiki's hooks and switches a project's off",
    );
  } catch (error) {
    const refuted = error instanceof KikiError && REFUTED.has(error.code);
    return proof("exclusive-hooks", refuted ? "failed" : "not-tried", errorLine(error));
  }
}

/** A project with a hook of its own, which must not run; nothing of the person's but PATH. */
function launchRequest({ executable, env, folder }: ProofRequest): LaunchRequest {
  const root = realpathSync(folder);
  const at = (name: string): string => join(root, name);
  for (const name of ["home", "project/.codex", "harness"]) ensureDir(at(name));
  const foreign = { PreToolUse: [{ hooks: [{ type: "command", command: "exit 0" }] }] };
  writeDurable(at("project/.codex/hooks.json"), JSON.stringify({ hooks: foreign }), 0o600);
  return {
    repoId: "proof",
    threadId: "proof",
    threadName: "proof",
    incarnation: "proof",
    incarnationSecret: "proof",
    sessionId: null,
    resume: false,
    workspaceRoot: at("project"),
    folder: at("harness"),
    executable,
    prompt: null,
    extraArgs: [],
    env: {
      PATH: env["PATH"] ?? baseEnv()["PATH"] ?? "/usr/bin:/bin",
      HOME: at("home"),
      LANG: "C.UTF-8",
    },
    briefing: null,
    hook: {
      executable: at("kk-hook"),
      socket: at("kkd.sock"),
      credentialFile: at("credential"),
      errorLog: at("errors.log"),
      passedFolder: at("passed"),
      spoolFolder: at("spool"),
      barrierFile: at("barrier"),
      kk: "/nonexistent/kk",
      stateDir: at("state"),
    },
  };
}

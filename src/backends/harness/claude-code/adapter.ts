/** Claude Code behind the harness port (observed on 2.1.332; facts are named where they are relied on). */
import { errorLine, fail } from "../../../core/errors.ts";
import { denyVerdict } from "../../../core/generic-deny.ts";
import type { Proof } from "../../../core/proofs.ts";
import type {
  Harness,
  HarnessEvent,
  LaunchRequest,
  LaunchSpec,
  ProofRequest,
} from "../../../ports/harness.ts";
import { baseEnv, firstLine, run } from "../../exec.ts";
import { checkClaudeArguments } from "./arguments.ts";
import { claudeStartupDialog } from "./dialogs.ts";
import { interpretClaudeEvent } from "./events.ts";
import { restoreLocalSettings } from "./local-settings.ts";
import { managedFolder } from "./managed.ts";
import { deniedResult } from "./judge.ts";
import { isolationOf, prepareLaunch } from "./prepare.ts";
import { claudeStateFile, pretrust } from "./pretrust.ts";
import { ADAPTER_VERSION, gateProofs } from "./proven.ts";
import { quickProofs } from "./quick-proofs.ts";
import { CLAUDE_TURNS, conversationGone } from "./turns.ts";

/** `claude --version` of a cold 400 MB executable on a busy machine. */
const VERSION_TIMEOUT_MS = 20_000;

/**
 * What stands in place of the result of a call that Claude Code took back itself (2.1.332, read in the program): nothing in
 * it says that the tool ran.
 */
const TAKEN_BACK = [
  "<tool_use_error>Cancelled: ",
  "<tool_use_error>Error: Streaming fallback - tool execution discarded",
];

export class ClaudeCodeHarness implements Harness {
  readonly name = "claude-code";
  readonly batching = "reported";
  readonly naming = "kiki";
  readonly adapterVersion = ADAPTER_VERSION;
  readonly turns = CLAUDE_TURNS;
  readonly #managedFolder: string;

  /** `managedFolder`: where managed policy is looked for, instead of the platform's place. */
  constructor(options: { managedFolder?: string } = {}) {
    this.#managedFolder = options.managedFolder ?? managedFolder();
  }

  async version(executable: string, env: Record<string, string>): Promise<string> {
    const result = await run({
      argv: [executable, "--version"],
      cwd: "/",
      env: baseEnv(env),
      timeoutMs: VERSION_TIMEOUT_MS,
    }).catch((error: unknown) => {
      throw badVersion(executable, errorLine(error));
    });
    if (result.timedOut) throw badVersion(executable, "it does not answer");
    const found = /^(\d+\.\d+\.\d+\S*)/.exec(firstLine(result.stdout.toString("utf8")));
    if (result.code !== 0 || found?.[1] === undefined) {
      throw badVersion(executable, firstLine(result.stderr) || "it prints no version");
    }
    return found[1];
  }

  gateProofs(version: string): readonly Proof[] | null {
    return gateProofs(version);
  }

  prove(request: ProofRequest): Promise<readonly Proof[]> {
    return quickProofs(request, this.#managedFolder, (reason) => this.denyOutput(reason));
  }

  checkArguments(extraArgs: readonly string[]): void {
    checkClaudeArguments(extraArgs);
  }

  async prepare(request: LaunchRequest): Promise<LaunchSpec> {
    if (isolationOf(request.proved ?? []) === "local-file")
      await checkUnrecorded(request.workspaceRoot, request.env);
    const spec = prepareLaunch(request, this.#managedFolder);
    // Last: what was refused has changed nothing of the person's.
    if (request.claudeCode?.pretrust === true)
      await pretrust(claudeStateFile(request.env), request.workspaceRoot);
    return spec;
  }

  release(folder: string): string | null {
    return restoreLocalSettings(folder);
  }

  /** Claude Code 2.1.332. */
  readonly agentTool = "Agent";

  interpretEvent(raw: unknown): HarnessEvent {
    return interpretClaudeEvent(raw);
  }

  /** Never the witness here: `PostToolBatch` carries what the model got, the record lags behind it. */
  record(): null {
    return null;
  }

  conversationGone(of: { env: Record<string, string>; sessionId: string }): boolean {
    return conversationGone(of);
  }

  denyOutput(reason: string): string {
    return denyVerdict(reason);
  }

  /** Byte-exact for reasons below 50,000 UTF-16 units (2.1.332); a payload has at most 16 KiB. */
  expectedResult(reason: string, call: { toolName: string }): string {
    return deniedResult(reason, call.toolName);
  }

  refusalPrefixes(call: { toolName: string }): string[] {
    return [this.expectedResult("", call), ...TAKEN_BACK];
  }

  startupDialog(paneText: string): string | null {
    return claudeStartupDialog(paneText);
  }

  /** Never needed: a start without a prompt reports its session. */
  composer(): boolean {
    return false;
  }
}

/** In a revision the file would carry kiki's paths to everybody, and every start would be an edit of the agent's. */
async function checkUnrecorded(workspace: string, env: Record<string, string>): Promise<void> {
  const file = ".claude/settings.local.json";
  const ignored = await run({
    argv: ["git", "check-ignore", "--quiet", "--", file],
    cwd: workspace,
    env: baseEnv(env),
    timeoutMs: VERSION_TIMEOUT_MS,
  }).catch(() => null);
  if (ignored?.code === 0) return;
  throw fail(
    "failed",
    "local-settings-recorded",
    `this version of Claude Code needs kiki's hooks in ${file}, and jj would record that file`,
    `add ${file} to .gitignore, or use a version kiki was released with`,
  );
}

function badVersion(executable: string, what: string): Error {
  return fail(
    "failed",
    "harness-version",
    `${executable} does not say its version: ${what}`,
    "install Claude Code, or name its executable in the configuration",
  );
}

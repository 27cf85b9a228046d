/** Codex behind the harness port (observed on 0.171.0; facts are named where they are relied on). */
import { join } from "node:path";
import { errorLine, fail } from "../../../core/errors.ts";
import { denyVerdict } from "../../../core/generic-deny.ts";
import type { Proof } from "../../../core/proofs.ts";
import type {
  Harness,
  HarnessEvent,
  LaunchRequest,
  LaunchSpec,
  ProofRequest,
  SessionRecord,
} from "../../../ports/harness.ts";
import { baseEnv, firstLine, run } from "../../exec.ts";
import { checkCodexArguments } from "./arguments.ts";
import { codexComposer, codexStartupDialog } from "./dialogs.ts";
import { interpretCodexEvent } from "./events.ts";
import { prepareLaunch, type Machine } from "./launch.ts";
import { PASSWD_FILE } from "./login-shell.ts";
import { MANAGED_FOLDER } from "./managed.ts";
import { nativeProgram } from "./program.ts";
import { ADAPTER_VERSION, gateProofs } from "./proven.ts";
import { quickProofs } from "./quick-proofs.ts";
import { findRecord, RolloutReader } from "./record.ts";
import { jjStores } from "./stores.ts";

/** `codex --version` of a cold 300 MB executable on a busy machine. */
const VERSION_TIMEOUT_MS = 20_000;
/** What Codex wraps the reason of a refusal in: for a command line or a patch, and for any other tool. */
const COMMAND_TOOLS = new Set(["Bash", "apply_patch"]);
const COMMAND_REFUSED = "Command blocked by PreToolUse hook: ";
const TOOL_REFUSED = "Tool call blocked by PreToolUse hook: ";

export class CodexHarness implements Harness {
  readonly name = "codex";
  readonly batching = "serial";
  readonly naming = "harness";
  readonly adapterVersion = ADAPTER_VERSION;
  readonly #machine: Machine;
  readonly #records = new RolloutReader();

  /** `managedFolder`, `passwdFile`: looked into instead of the machine's own. */
  constructor(options: { managedFolder?: string; passwdFile?: string } = {}) {
    const { managedFolder = MANAGED_FOLDER, passwdFile = PASSWD_FILE } = options;
    this.#machine = { managedFolder, passwdFile };
  }

  async version(executable: string, env: Record<string, string>): Promise<string> {
    const result = await run({
      argv: [nativeProgram(executable), "--version"],
      cwd: "/",
      env: baseEnv(env),
      timeoutMs: VERSION_TIMEOUT_MS,
    }).catch((error: unknown) => {
      throw badVersion(executable, errorLine(error));
    });
    if (result.timedOut) throw badVersion(executable, "it does not answer");
    const found = /^codex-cli (\d+\.\d+\.\d+\S*)/.exec(firstLine(result.stdout.toString("utf8")));
    if (result.code !== 0 || found?.[1] === undefined) {
      throw badVersion(executable, firstLine(result.stderr) || "it prints no version");
    }
    return found[1];
  }

  gateProofs(version: string): readonly Proof[] | null {
    return gateProofs(version);
  }

  prove(request: ProofRequest): Promise<readonly Proof[]> {
    return quickProofs(request, this.#machine, (reason, call) => this.expectedResult(reason, call));
  }

  checkArguments(extraArgs: readonly string[]): void {
    checkCodexArguments(extraArgs);
  }

  writesOutside(repoRoot: string): readonly string[] {
    return jjStores(repoRoot);
  }

  prepare(request: LaunchRequest): Promise<LaunchSpec> {
    return prepareLaunch(request, this.#machine);
  }

  interpretEvent(raw: unknown): HarnessEvent {
    return interpretCodexEvent(raw);
  }

  record(path: string): SessionRecord | null {
    return this.#records.read(path);
  }

  recordOf(folder: string, sessionId: string): string | null {
    return findRecord(join(folder, "codex-home"), sessionId);
  }

  /** An unknown id: "no rollout found for thread id", exit 1 (0.171.0). */
  conversationGone({ folder, sessionId }: { folder: string; sessionId: string }): boolean {
    return this.recordOf(folder, sessionId) === null;
  }

  /** Fields beyond these would make the verdict invalid, and the tool run. */
  denyOutput(reason: string): string {
    return denyVerdict(reason.trim());
  }

  /** Byte-exact for whole results below 480,000 bytes, with the limit kiki generates (0.171.0). */
  expectedResult(reason: string, call: { toolName: string; command?: string | undefined }): string {
    const { toolName, command } = call;
    return COMMAND_TOOLS.has(toolName)
      ? `${COMMAND_REFUSED}${reason.trim()}. Command: ${command ?? ""}`
      : `${TOOL_REFUSED}${reason.trim()}. Tool: ${toolName}`;
  }

  refusalPrefixes(): readonly string[] {
    return [COMMAND_REFUSED, TOOL_REFUSED];
  }

  startupDialog(paneText: string): string | null {
    return codexStartupDialog(paneText);
  }

  composer(paneText: string): boolean {
    return codexComposer(paneText);
  }
}

function badVersion(executable: string, what: string): Error {
  return fail(
    "failed",
    "harness-version",
    `${executable} does not say its version: ${what}`,
    "install Codex, or name its executable in the configuration",
  );
}

/**
 * A harness whose settings are two files and whose dialogs are one sentence. Payloads, refusals and results are those
 * of Claude Code 2.1.332, so that events go from raw to interpreted as in life; everything not proved is refused.
 */
import { createHash } from "node:crypto";
import { fail } from "../../src/core/errors.ts";
import { CAPABILITIES, type Capabilities, type Proof } from "../../src/core/proofs.ts";
import type { CreationFiles } from "../../src/lifecycle/creation-deps.ts";
import type {
  Batching,
  Harness,
  HarnessEvent,
  HarnessName,
  LaunchRequest,
  LaunchSpec,
  SessionRecord,
  TurnWitnesses,
} from "../../src/ports/harness.ts";
import { readStrictly } from "./harness-events.ts";

export const PROVEN_VERSION = "2.1.332";

/** Where a harness finds settings. Only what a managed one says cannot be kept out of a launch. */
export interface SettingsSource {
  scope: "user" | "project" | "local" | "plugin" | "managed";
  path: string;
  /** JSON, as somebody wrote it. */
  text: string;
}

/** Options a person may add; anything else might touch what kiki has proved. */
const ALLOWED = new Set(["--model", "--permission-mode", "--verbose", "--add-dir", "-d", "-n"]);
/** Claude Code takes 50,000 UTF-16 units verbatim; Codex trims both ends. */
const MAX_REASON_UNITS = 50_000;

export class FakeHarness implements Harness {
  readonly name: HarnessName = "claude-code";
  readonly batching: Batching = "reported";
  /** `harness`: as Codex, which names its conversations itself, with the first prompt. */
  naming: "kiki" | "harness" = "kiki";
  readonly requests: LaunchRequest[] = [];
  /** What `prepare` fails with. */
  refuses: Error | null = null;
  can: Partial<Capabilities> = {};
  /** What the quick proofs of a version that is not `PROVEN_VERSION` find. */
  quick: Proof[] = [];
  /** Conversations whose record somebody deleted. */
  readonly gone = new Set<string>();
  /** Absent as where hooks tell of every end of a turn. */
  turns?: TurnWitnesses;
  /** Versions the quick proofs were asked for. */
  readonly provedQuickly: string[] = [];
  readonly adapterVersion = "fake-1";
  /** First line of `--version`. */
  says = `${PROVEN_VERSION} (Claude Code)`;
  /** Every file with settings that the harness would find on this machine. */
  sources: SettingsSource[] = [];
  readonly #files: Pick<CreationFiles, "writeDurable">;

  constructor(files: Pick<CreationFiles, "writeDurable">) {
    this.#files = files;
  }

  async version(): Promise<string> {
    const found = /^(\d+\.\d+\.\d+) \(Claude Code\)$/.exec(this.says)?.[1];
    if (found === undefined) {
      throw fail("failed", "harness-version", `the harness says ${JSON.stringify(this.says)}`);
    }
    return found;
  }

  /** One proof for each capability; null for a version nobody ran. */
  gateProofs(version: string): Proof[] | null {
    return version === PROVEN_VERSION ? this.#proofs() : null;
  }

  async prove({ version }: { version: string }): Promise<Proof[]> {
    this.provedQuickly.push(version);
    return this.quick;
  }

  #proofs(): Proof[] {
    return CAPABILITIES.map((capability) => ({
      name: capability,
      takes: [capability],
      outcome: this.can[capability] === false ? "failed" : "proved",
      reason: this.can[capability] === false ? `${capability} was not seen` : "seen",
    }));
  }

  checkArguments(extraArgs: readonly string[]): void {
    const bad = extraArgs.find((a, i) => {
      const option = a.startsWith("-") && a !== "--" ? a.split("=", 1)[0]! : null;
      return option === null ? a === "--" || i === 0 : !ALLOWED.has(option);
    });
    if (bad !== undefined)
      throw fail("usage", "harness-arg", `${bad} would replace kiki's settings`);
  }

  conversationGone({ sessionId }: { sessionId: string }): boolean {
    return this.gone.has(sessionId);
  }

  async prepare(request: LaunchRequest): Promise<LaunchSpec> {
    if (this.refuses !== null) throw this.refuses;
    this.checkArguments(request.extraArgs);
    checkRequest(request);
    const { sessionId } = request;
    if (sessionId === null && this.naming === "kiki")
      throw new Error("a conversation is named before it starts");
    for (const source of this.sources) checkSource(source);
    this.requests.push(request);
    const settings = `${request.folder}/settings.json`;
    const hook = `${request.folder}/hook`;
    await this.#files.writeDurable(settings, `settings of ${request.incarnation}`, 0o600);
    await this.#files.writeDurable(hook, `hook of ${request.incarnation}`, 0o700);
    const option = request.resume ? "--resume" : "--session-id";
    const session = sessionId === null ? [] : [option, sessionId];
    const prompt = request.prompt === null ? [] : ["--", request.prompt];
    const argv = [
      request.executable,
      "--settings",
      settings,
      ...session,
      ...request.extraArgs,
      ...prompt,
    ];
    return {
      argv,
      env: {
        ...request.env,
        KIKI_INCARNATION: request.incarnation,
        KIKI_INCARNATION_SECRET: request.incarnationSecret,
      },
      cwd: request.workspaceRoot,
      settingsFingerprint: this.#fingerprint(argv),
      files: [settings, hook],
      marks: ["KIKI_INCARNATION_SECRET"],
      proofs: [],
    };
  }

  readonly agentTool = "Agent";

  interpretEvent(raw: unknown): HarnessEvent {
    return readStrictly(raw);
  }

  record(_path: string): SessionRecord | null {
    return null;
  }

  denyOutput(reason: string): string {
    if (reason === "" || reason !== reason.trim() || reason.length > MAX_REASON_UNITS) {
      throw new Error(`not a reason that arrives as it is: ${JSON.stringify(reason.slice(0, 80))}`);
    }
    const verdict = {
      hookEventName: "PreToolUse",
      permissionDecision: "deny",
      permissionDecisionReason: reason,
    };
    return JSON.stringify({ hookSpecificOutput: verdict });
  }

  expectedResult(reason: string, call: { toolName: string; command?: string | undefined }): string {
    return `PreToolUse:${call.toolName} hook error: ${reason}`;
  }

  refusalPrefixes(call: { toolName: string }): string[] {
    return [this.expectedResult("", call)];
  }

  composer(paneText: string): boolean {
    return this.naming === "harness" && paneText.includes("COMPOSER");
  }

  startupDialog(paneText: string): string | null {
    return paneText.includes("Do you trust this folder?") ? "folder trust" : null;
  }

  /** Covers the command line and the evidence that nobody else can hook. */
  #fingerprint(argv: readonly string[]): string {
    const managed = this.sources.filter((s) => s.scope === "managed");
    const evidence = JSON.stringify([argv, managed]);
    return createHash("sha256").update(evidence).digest("hex");
  }
}

function checkRequest(request: LaunchRequest): void {
  const { folder, workspaceRoot, executable } = request;
  if (!executable.startsWith("/")) throw new Error(`not an absolute program: ${executable}`);
  if (`${folder}/`.startsWith(`${workspaceRoot}/`)) {
    throw new Error(`generated settings inside the workspace: ${folder}`);
  }
  const bad = Object.keys(request.env).find((n) => /^(?:BUN_|KIKI_|NODE_OPTIONS$)/.test(n));
  if (bad !== undefined) throw fail("usage", "harness-env", `${bad} cannot be passed on`);
}

/** Everything but managed policy is kept out of a launch; that can neither be kept out nor overruled. */
function checkSource({ scope, path, text }: SettingsSource): void {
  if (scope === "plugin") return; // not loaded at all
  let settings: unknown;
  try {
    settings = JSON.parse(text);
  } catch {
    if (scope === "managed") throw notExclusive(path, "it is not JSON");
    throw fail("failed", "bad-settings", `${path} is not JSON`);
  }
  if (scope !== "managed") return;
  const policy = settings as Record<string, unknown>;
  const hooks = policy["hooks"] as Record<string, unknown> | undefined;
  if (hooks?.["PreToolUse"] !== undefined) throw notExclusive(path, "it has a PreToolUse hook");
  for (const key of ["disableAllHooks", "allowManagedHooksOnly", "enabledPlugins"]) {
    if (policy[key] !== undefined) throw notExclusive(path, `it sets ${key}`);
  }
}

function notExclusive(path: string, objection: string): Error {
  return fail(
    "failed",
    "hooks-not-exclusive",
    `kiki cannot be the only pre-tool hook: ${path}: ${objection}`,
  );
}

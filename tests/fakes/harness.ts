/** A harness whose settings are two files and whose dialogs are one sentence. */
import { createHash } from "node:crypto";
import { fail } from "../../src/core/errors.ts";
import type { CreationFiles } from "../../src/lifecycle/creation-deps.ts";
import type {
  Capabilities,
  Harness,
  HarnessEvent,
  LaunchRequest,
  LaunchSpec,
} from "../../src/ports/harness.ts";

export class FakeHarness implements Harness {
  readonly name = "claude-code";
  readonly requests: LaunchRequest[] = [];
  /** What `prepare` fails with. */
  refuses: Error | null = null;
  can: Partial<Capabilities> = {};
  readonly #files: Pick<CreationFiles, "writeDurable">;

  constructor(files: Pick<CreationFiles, "writeDurable">) {
    this.#files = files;
  }

  async version(): Promise<string> {
    return "2.1.332";
  }

  capabilities(): Capabilities {
    return {
      soft_pause: true,
      session_resume: true,
      structured_tool_hooks: true,
      parallel_batch_boundary: true,
      exclusive_pre_tool_use: true,
      restart_startup_delivery: true,
      mcp_client: true,
      quiescence_detection: true,
      ...this.can,
    };
  }

  checkArguments(extraArgs: readonly string[]): void {
    const bad = extraArgs.find((a) => a.startsWith("--settings"));
    if (bad !== undefined)
      throw fail("usage", "harness-arg", `${bad} would replace kiki's settings`);
  }

  async prepare(request: LaunchRequest): Promise<LaunchSpec> {
    if (this.refuses !== null) throw this.refuses;
    this.requests.push(request);
    const settings = `${request.folder}/settings.json`;
    const hook = `${request.folder}/hook`;
    await this.#files.writeDurable(settings, `settings of ${request.incarnation}`, 0o600);
    await this.#files.writeDurable(hook, `hook of ${request.incarnation}`, 0o700);
    const argv = [request.executable, "--settings", settings, "--session-id", request.sessionId];
    if (request.prompt !== null) argv.push(request.prompt);
    return {
      argv,
      env: {
        ...request.env,
        KIKI_INCARNATION: request.incarnation,
        KIKI_INCARNATION_SECRET: request.incarnationSecret,
      },
      cwd: request.workspaceRoot,
      settingsFingerprint: createHash("sha256").update(argv.join("\0")).digest("hex"),
      files: [settings, hook],
    };
  }

  interpretEvent(): HarnessEvent {
    return { type: "Other", name: "fake" };
  }

  denyOutput(reason: string): string {
    return reason;
  }

  expectedResult(reason: string): string {
    return reason;
  }

  startupDialog(paneText: string): string | null {
    return paneText.includes("Do you trust this folder?") ? "folder trust" : null;
  }
}

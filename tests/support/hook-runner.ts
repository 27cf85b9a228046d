/** A kk-hook in a folder of its own, and a toy daemon for it to talk to. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isBuilt } from "../../scripts/build.ts";
import { ROOT } from "../../scripts/packages.ts";

export const INCARNATION = "11111111-2222-4333-8444-555555555555";
export const SECRET = "ab".repeat(32);
export const CREDENTIAL = "cd".repeat(32);

export interface HookResult {
  code: number | null;
  stdout: string;
  stderr: string;
  ms: number;
}

/** One recorded request of the toy daemon. */
export interface Received {
  method: string;
  authorization: string;
  /** Exactly the bytes sent. */
  body: string;
}

export type Answer = (request: Received) => Response | Promise<Response>;

/** argv that runs the hook: the compiled one when it is current, else the sources. */
export function hookCommand(): string[] {
  const dist = join(ROOT, "dist");
  return isBuilt(dist) ? [join(dist, "kk-hook")] : [process.execPath, join(ROOT, "src", "main.ts")];
}

export class HookBox {
  readonly root: string;
  readonly socket: string;
  readonly received: Received[] = [];
  readonly env: Record<string, string>;
  #server: ReturnType<typeof Bun.serve> | null = null;

  constructor() {
    this.root = mkdtempSync(join(tmpdir(), "kiki-test-"));
    this.socket = join(this.root, "kkd.sock");
    mkdirSync(join(this.root, "harness"));
    mkdirSync(join(this.root, "state"));
    writeFileSync(join(this.root, "credential"), `${CREDENTIAL}\n`, { mode: 0o600 });
    this.env = {
      PATH: process.env["PATH"] ?? "/usr/bin:/bin",
      HOME: this.root,
      TMPDIR: this.root,
      KIKI_AS: "kk-hook",
      KIKI_HOOK_SOCKET: this.socket,
      KIKI_HOOK_CREDENTIAL: join(this.root, "credential"),
      KIKI_HOOK_PASSED: this.path("passed"),
      KIKI_HOOK_SPOOL: this.path("spool"),
      KIKI_HOOK_BARRIER: this.path("barrier"),
      KIKI_HOOK_ERRORLOG: join(this.root, "errors", "thread.log"),
      KIKI_INCARNATION: INCARNATION,
      KIKI_INCARNATION_SECRET: SECRET,
      KIKI_PATHS__USER_STATE_DIR: join(this.root, "state"),
    };
  }

  /** A path in the thread's harness folder. */
  path(name: string): string {
    return join(this.root, "harness", name);
  }

  serve(answer: Answer): void {
    this.#server = Bun.serve({
      unix: this.socket,
      fetch: async (request) => {
        const received: Received = {
          method: new URL(request.url).pathname,
          authorization: request.headers.get("authorization") ?? "",
          body: await request.text(),
        };
        this.received.push(received);
        return answer(received);
      },
    });
  }

  raiseBarrier(): void {
    writeFileSync(this.path("barrier"), "");
  }

  async run(
    event: string,
    payload: string | Uint8Array,
    env: Record<string, string> = {},
  ): Promise<HookResult> {
    return runProgram([...hookCommand(), event], payload, { ...this.env, ...env }, this.root);
  }

  /** Names of regular and hidden files in a folder of the harness folder. */
  names(folder: string): string[] {
    return existsSync(this.path(folder)) ? readdirSync(this.path(folder)).sort() : [];
  }

  read(folder: string, name: string): string {
    return readFileSync(join(this.path(folder), name), "utf8");
  }

  errorLines(): string[] {
    const log = this.env["KIKI_HOOK_ERRORLOG"] ?? "";
    return existsSync(log) ? readFileSync(log, "utf8").trimEnd().split("\n") : [];
  }

  async close(): Promise<void> {
    await this.#server?.stop(true);
    rmSync(this.root, { recursive: true, force: true });
  }
}

export async function runProgram(
  argv: string[],
  payload: string | Uint8Array,
  env: Record<string, string>,
  cwd: string,
): Promise<HookResult> {
  const started = performance.now();
  const child = Bun.spawn(argv, {
    cwd,
    env,
    stdin: typeof payload === "string" ? Buffer.from(payload) : payload,
    stdout: "pipe",
    stderr: "pipe",
  });
  const [stdout, stderr, code] = await Promise.all([
    child.stdout.text(),
    child.stderr.text(),
    child.exited,
  ]);
  return {
    code: child.signalCode === null ? code : null,
    stdout,
    stderr,
    ms: performance.now() - started,
  };
}

/** A PreToolUse payload as Claude Code 2.1.332 writes it. */
export function preToolUse(id: string, extra: Record<string, unknown> = {}): string {
  return JSON.stringify({
    session_id: "9af4",
    transcript_path: "/cfg/projects/-p/9af4.jsonl",
    cwd: "/p",
    prompt_id: "ddd9",
    permission_mode: "default",
    hook_event_name: "PreToolUse",
    tool_name: "Bash",
    tool_input: { command: "true" },
    ...extra,
    tool_use_id: id,
  });
}

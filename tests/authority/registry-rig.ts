/**
 * The whole daemon in this process, on real jj and real databases, asked over its socket. A person is whatever process
 * id a test calls one: terminals are the test's own. It can die at any crash point and be started again.
 */
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { makeWorld } from "../../src/daemon/wire.ts";
import { bootDaemon, type RunningDaemon } from "../../src/daemon/boot.ts";
import { statePaths } from "../../src/core/paths.ts";
import type { KikiError } from "../../src/core/errors.ts";
import type { World } from "../../src/daemon/runtime.ts";
import { makeClient, type Client } from "../../src/rpc/client.ts";
import type { Input, MethodName, Output } from "../../src/rpc/contract/methods.ts";
import type { Approvable } from "../../src/rpc/contract/approvals.ts";
import type { TestRepo } from "../support/jj-repo.ts";
import { tempDir } from "../support/temp.ts";

/** In the foreground of terminal 1; in that of terminal 2. Process 3 is an agent's. */
export const PERSON = 101;
export const OTHER_TERMINAL = 102;
export const AGENT = 103;

const LOG = { info: () => undefined, warn: () => undefined, error: () => undefined };

export class RegistryRig {
  readonly repo: TestRepo;
  readonly stateDir: string;
  /** Crash point at which the daemon dies, once. */
  crashAt: string | null = null;
  readonly crashesSeen: string[] = [];
  /** Repositories as the daemon of now began to watch them. */
  readonly starts: string[] = [];
  #running: RunningDaemon | null = null;

  private constructor(repo: TestRepo, stateDir: string) {
    this.repo = repo;
    this.stateDir = stateDir;
  }

  /** On a repository of several tests, with a state folder of its own. */
  static async make(repo: TestRepo): Promise<RegistryRig> {
    Object.assign(process.env, { JJ_CONFIG: repo.env["JJ_CONFIG"] });
    const rig = new RegistryRig(repo, join(tempDir("state"), "kiki"));
    await rig.boot();
    await rig.enrol();
    return rig;
  }

  async boot(): Promise<void> {
    const real = makeWorld(this.stateDir, () => LOG);
    real.files.ensureDir(this.stateDir, 0o700);
    this.starts.length = 0;
    const world: World = {
      ...real,
      openRepo: async (row, socket, proving) => {
        const repo = await real.openRepo(row, socket, proving);
        const start = (): Promise<void> => {
          this.starts.push(row.repoId);
          return repo.cascade.start();
        };
        return { ...repo, cascade: { ...repo.cascade, start } };
      },
      terminals: { look: (pid) => TERMINALS[pid] ?? null },
      processes: { ...real.processes, parentOf: () => null },
      crash: { at: (name) => this.#crash(name) },
    };
    const running = await bootDaemon({
      stateDir: this.stateDir,
      runtimeDir: this.repo.dir,
      world,
      log: LOG,
      mayServe: () => Promise.resolve(true),
    });
    if (running === null) throw new Error("the daemon does not serve");
    this.#running = running;
  }

  async stop(): Promise<void> {
    await this.#running?.stop();
    this.#running = null;
  }

  get daemon(): RunningDaemon["daemon"] {
    if (this.#running === null) throw new Error("no daemon");
    return this.#running.daemon;
  }

  /** `registration`, `presenter`, `admin`: read from its file; anything else is the secret itself. */
  client(credential: string | null): Client {
    const paths = statePaths(this.stateDir);
    const files: Record<string, string> = {
      registration: paths.registrationCredential,
      presenter: paths.presenterCredential,
      admin: paths.adminCredential,
    };
    const file = credential === null ? undefined : files[credential];
    const secret = file === undefined ? credential : readFileSync(file, "utf8").trim();
    return makeClient({ socket: this.daemon.socket, credential: secret, clientVersion: "test" });
  }

  /** Calls with the registration credential. */
  call<M extends MethodName>(method: M, input: Input<M>): Promise<Output<M>> {
    return this.client("registration").call(method, input);
  }

  async enrol(): Promise<void> {
    await this.call("EnrollApprovalPresenter", { clientPid: PERSON });
  }

  begin(request: Approvable, clientPid = PERSON): Promise<Output<"BeginApproval">> {
    return this.call("BeginApproval", { ...request, clientPid });
  }

  /** A person's yes. */
  async agreed(request: Approvable): Promise<string> {
    return this.confirm(await this.begin(request));
  }

  async confirm(plan: Output<"BeginApproval">, clientPid = PERSON): Promise<string> {
    const { approval } = await this.client("presenter").call(
      "ConfirmApproval",
      answerTo(plan, clientPid),
    );
    return approval;
  }

  async register(folder = this.repo.root): Promise<Output<"RegisterRepo">> {
    const approval = await this.agreed({ method: "RegisterRepo", args: { folder } });
    return this.call("RegisterRepo", { folder, approval });
  }

  /** Folders of `repos/`, hidden ones too. */
  recorded(): string[] {
    const folder = join(this.stateDir, "repos");
    return existsSync(folder) ? readdirSync(folder).sort() : [];
  }

  rows(sql: string): Record<string, unknown>[] {
    return this.daemon.userDb.query<Record<string, unknown>, []>(sql).all();
  }

  #crash(name: string): void {
    this.crashesSeen.push(name);
    if (name !== this.crashAt) return;
    this.crashAt = null;
    throw new Error(`the daemon died at ${name}`);
  }
}

const TERMINAL = { startTime: "1", terminal: "tty 1", foreground: true, agentMark: false };
const TERMINALS: Record<number, typeof TERMINAL> = {
  [PERSON]: TERMINAL,
  [OTHER_TERMINAL]: { ...TERMINAL, terminal: "tty 2" },
  [AGENT]: { ...TERMINAL, agentMark: true },
};

export function answerTo(
  { challenge }: Output<"BeginApproval">,
  clientPid: number,
): Input<"ConfirmApproval"> {
  if (challenge === null) throw new Error("there is no challenge");
  const { challengeId, repoId, nonce } = challenge;
  return { challengeId, repoId, nonce, clientPid };
}

export async function codeOf(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => "done",
    (error: KikiError) => error.code,
  );
}

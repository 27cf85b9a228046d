/**
 * What kiki adds to every tool call: kk-hook's PassThrough as a whole process, alone and through its launcher, against
 * a compiled hello-world of the same Bun, one after the other in turns.
 */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launcherText } from "../../src/backends/harness/launcher.ts";
import { monotonicMs, openLibc, spanOf } from "../../src/cmd/hook-ffi.ts";
import { CONNECT_MS } from "../../src/cmd/hook-protocol.ts";
import { threadPaths } from "../../src/core/paths.ts";
import { build, isBuilt } from "../build.ts";
import { platformFiles, hostTarget, ROOT } from "../packages.ts";
import { startDaemon, startStub, type BenchDaemon, type BenchThread } from "./hook-daemon.ts";
import { finish, program, start, type Program } from "./spawn.ts";
import { absoluteRow, floorRow, ratioRow, type Row } from "./stats.ts";

const THREADS = 50;
const AT_ONCE = 16;
/** Rounds of AT_ONCE processes each, as a share of the samples. */
const ROUNDS_PER_SAMPLE = 0.15;
const WARM_UP = 10;
const HOOK_PASSED = 10;

const TARGETS = { one: { median: 1.6, p95: 3 }, many: { median: 1.7 } };
const DAEMON_TARGET = { median: 1, tail: 5, share: 0.99 };

export async function hookBench(options: { samples: number; stub: boolean }): Promise<Row[]> {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "kiki-bench-")));
  let daemon: BenchDaemon | null = null;
  try {
    const dist = join(ROOT, "dist");
    if (!isBuilt(dist)) {
      console.error("building dist/kiki");
      await build([], dist);
    }
    const hello = await compileHello(root);
    daemon = options.stub
      ? await startStub(root, THREADS)
      : await startDaemon(root, join(dist, "kkd"), THREADS);
    return await measure(options.samples, root, daemon, { hello, hook: join(dist, "kk-hook") });
  } finally {
    await daemon?.stop();
    rmSync(root, { recursive: true, force: true });
  }
}

type Kind = "hello" | "direct" | "launcher";

async function measure(
  samples: number,
  root: string,
  daemon: BenchDaemon,
  paths: { hello: string; hook: string },
): Promise<Row[]> {
  const bench = new HookPrograms(root, daemon, paths);
  for (let i = 0; i < WARM_UP; i += 1) for (const kind of KINDS) await bench.one(kind);

  const times: Record<Kind, number[]> = { hello: [], direct: [], launcher: [] };
  for (let i = 0; i < samples; i += 1) {
    for (const kind of KINDS) times[kind].push(await bench.one(kind));
  }
  const many: Record<Kind, number[]> = { hello: [], direct: [], launcher: [] };
  for (let i = 0; i < Math.max(5, samples * ROUNDS_PER_SAMPLE); i += 1) {
    for (const kind of KINDS) many[kind].push(await bench.atOnce(kind));
  }
  const roundTrips: number[] = [];
  for (let i = 0; i < samples; i += 1) roundTrips.push(await bench.roundTrip());
  const unanswered = await bench.unanswered();
  if (unanswered.length > 0) {
    console.error(`hook: ${unanswered.length} calls took the outage path: ${unanswered[0]}`);
  }

  const floor = floorRow("hello-world", times.hello);
  const floorMany = floorRow(`${AT_ONCE} hello-worlds at once`, many.hello);
  return [
    floor,
    ratioRow("kk-hook", times.direct, floor, TARGETS.one),
    ratioRow("kk-hook through its launcher", times.launcher, floor),
    floorMany,
    ratioRow(`${AT_ONCE} kk-hook at once`, many.direct, floorMany, TARGETS.many),
    ratioRow(`${AT_ONCE} through the launcher at once`, many.launcher, floorMany),
    absoluteRow("round trip to the daemon (p99)", roundTrips, DAEMON_TARGET),
  ];
}

const KINDS: readonly Kind[] = ["hello", "direct", "launcher"];

/** Runs the programs; every call is a new tool call of the next thread, and its batch is closed afterwards. */
class HookPrograms {
  readonly #root: string;
  readonly #daemon: BenchDaemon;
  readonly #paths: { hello: string; hook: string };
  readonly #libc = openLibc();
  #calls = 0;

  constructor(root: string, daemon: BenchDaemon, paths: { hello: string; hook: string }) {
    this.#root = root;
    this.#daemon = daemon;
    this.#paths = paths;
    for (const thread of daemon.threads) {
      mkdirSync(thread.folder, { recursive: true, mode: 0o700 });
      const launcher = launcherText({
        incarnation: thread.incarnation,
        hook: {
          ...this.#files(thread),
          executable: paths.hook,
          kk: "",
          stateDir: daemon.stateDir,
        },
      });
      writeFileSync(join(thread.folder, "hook"), launcher, { mode: 0o700 });
    }
  }

  /** Milliseconds of one process from start to end. */
  async one(kind: Kind): Promise<number> {
    const call = this.#next();
    const what = this.#program(kind, call);
    const began = monotonicMs();
    const code = finish(start(what));
    const took = monotonicMs() - began;
    expectCode(kind, code);
    if (kind !== "hello") await this.#daemon.closeBatch(call.thread, [call.id]);
    return took;
  }

  /** Milliseconds until the last of AT_ONCE processes has ended; each belongs to a thread of its own. */
  async atOnce(kind: Kind): Promise<number> {
    const calls = Array.from({ length: AT_ONCE }, () => this.#next());
    const programs = calls.map((call) => this.#program(kind, call));
    const began = monotonicMs();
    const codes = programs.map(start).map(finish);
    const took = monotonicMs() - began;
    for (const code of codes) expectCode(kind, code);
    if (kind !== "hello") {
      for (const call of calls) await this.#daemon.closeBatch(call.thread, [call.id]);
    }
    return took;
  }

  /** The daemon's share: one decision over a connection of its own, from a process that is warm. */
  async roundTrip(): Promise<number> {
    const { thread, id, payload } = this.#next();
    const body = spanOf(
      `{"incarnation":"${thread.incarnation}","secret":"${thread.secret}","event":${payload}}`,
    );
    const began = monotonicMs();
    const reply = this.#libc?.exchange({
      socket: this.#daemon.socket,
      method: "PreToolUseDecision",
      credential: thread.credential,
      body,
      connectMs: CONNECT_MS,
      deadline: began + 1000,
    });
    const took = monotonicMs() - began;
    if (reply?.body !== '{"decision":"pass"}')
      throw new Error(`the daemon says ${JSON.stringify(reply)}`);
    await this.#daemon.closeBatch(thread, [id]);
    return took;
  }

  /** Calls that were not answered in time went the way of an outage, which costs something else. */
  async unanswered(): Promise<string[]> {
    const logs = this.#daemon.threads.map((thread) => Bun.file(this.#files(thread).errorLog));
    const texts = await Promise.all(logs.map((log) => log.text().catch(() => "")));
    return texts.flatMap((text) => text.split("\n")).filter((line) => line !== "");
  }

  #next(): { thread: BenchThread; id: string; payload: string } {
    const thread = this.#daemon.threads[this.#calls % THREADS];
    if (thread === undefined) throw new Error("no thread");
    const id = `toolu_bench_${this.#calls}`;
    this.#calls += 1;
    return { thread, id, payload: payloadOf(id) };
  }

  #program(kind: Kind, call: { thread: BenchThread; payload: string }): Program {
    const { thread, payload } = call;
    const input = join(this.#root, `payload-${this.#calls % (2 * AT_ONCE)}.json`);
    writeFileSync(input, payload);
    if (kind === "hello") return program([this.#paths.hello], { PATH: "/usr/bin:/bin" }, input);
    const secret = { PATH: "/usr/bin:/bin", KIKI_INCARNATION_SECRET: thread.secret };
    if (kind === "launcher")
      return program([join(thread.folder, "hook"), "PreToolUse"], secret, input);
    const files = this.#files(thread);
    return program(
      [this.#paths.hook, "PreToolUse"],
      {
        ...secret,
        KIKI_HOOK_SOCKET: files.socket,
        KIKI_HOOK_CREDENTIAL: files.credentialFile,
        KIKI_HOOK_PASSED: files.passedFolder,
        KIKI_HOOK_SPOOL: files.spoolFolder,
        KIKI_HOOK_BARRIER: files.barrierFile,
        KIKI_HOOK_ERRORLOG: files.errorLog,
        KIKI_INCARNATION: thread.incarnation,
      },
      input,
    );
  }

  #files(thread: BenchThread) {
    const paths = threadPaths(this.#daemon.stateDir, this.#daemon.repoId, thread.threadId);
    return {
      socket: this.#daemon.socket,
      credentialFile: paths.credential,
      passedFolder: paths.passed,
      spoolFolder: paths.spool,
      barrierFile: paths.barrier,
      errorLog: paths.errorLog,
    };
  }
}

function expectCode(kind: Kind, code: number): void {
  const expected = kind === "direct" ? HOOK_PASSED : 0;
  if (code !== expected) throw new Error(`${kind}: ended with ${code}, not ${expected}`);
}

function payloadOf(id: string): string {
  return JSON.stringify({
    session_id: "bench",
    transcript_path: "/bench.jsonl",
    cwd: "/",
    prompt_id: "prompt",
    permission_mode: "default",
    hook_event_name: "PreToolUse",
    tool_name: "Bash",
    tool_input: { command: "echo bench", description: "a call like many" },
    tool_use_id: id,
  });
}

/** The floor: as small as a program of this Bun can be, built the way kiki is. */
async function compileHello(root: string): Promise<string> {
  const source = join(root, "hello.ts");
  const outfile = join(root, "hello");
  writeFileSync(source, 'console.log("hello");\n');
  const result = await Bun.build({
    entrypoints: [source],
    target: "bun",
    format: "esm",
    splitting: true,
    bytecode: true,
    minify: true,
    compile: {
      target: `bun-${hostTarget()}`,
      outfile,
      executablePath: platformFiles(hostTarget()).runtime,
      autoloadDotenv: false,
      autoloadBunfig: false,
    },
    throw: false,
  });
  if (!result.success) throw new Error(result.logs.map(String).join("\n"));
  return outfile;
}

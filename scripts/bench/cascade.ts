/**
 * What an agent waits for at a boundary: kiki's whole work against the bare jj commands that would do the same, on a
 * second follower of the same parent, in turns.
 */
import { join } from "node:path";
import { makeRig, type Agent, type Rig, type TestThread } from "../../tests/cascade/rig.ts";
import { removeTempDirs } from "../../tests/support/temp.ts";
import { floorRow, ratioRow, type Row } from "./stats.ts";

const FILES = 1_000;
const WARM_UP = 2;
/** A boundary takes a good part of a second, and the parent has to move before each. */
const MAX_SAMPLES = 25;
const TARGET = { median: 2 };

export async function cascadeBench(options: { samples: number }): Promise<Row[]> {
  const rig = await makeRig();
  try {
    const bench = await Boundaries.prepare(rig);
    const samples = Math.min(options.samples, MAX_SAMPLES);
    return [...(await bench.rows("stale", samples)), ...(await bench.rows("advance", samples))];
  } finally {
    await rig.close();
    removeTempDirs();
  }
}

type Kind = "stale" | "advance";

const NAMES: Record<Kind, { floor: string; kiki: string }> = {
  stale: {
    floor: "jj workspace update-stale and 3 jj log",
    kiki: `boundary, StaleClean, ${FILES} files`,
  },
  advance: {
    floor: "jj rebase, op integrate, update-stale and 4 jj log",
    kiki: `boundary, ParentAdvance, ${FILES} files`,
  },
};

class Boundaries {
  readonly #rig: Rig;
  readonly #parent: TestThread;
  readonly #agent: Agent;
  /** Follows the parent without kiki's knowledge. */
  readonly #plain: string;
  #moves = 0;

  private constructor(rig: Rig, parent: TestThread, child: TestThread, plain: string) {
    this.#rig = rig;
    this.#parent = parent;
    this.#agent = rig.agent(child);
    this.#plain = plain;
  }

  static async prepare(rig: Rig): Promise<Boundaries> {
    const parent = await rig.thread("parent");
    for (let n = 0; n < FILES; n += 1)
      rig.repo.write(`src/part-${n % 40}/file-${n}.ts`, `export const n = ${n};\n`, parent.path);
    await rig.repo.jj(["status"], parent.path);
    const child = await rig.thread("child", parent);
    const plain = join(rig.repo.dir, "plain");
    await rig.repo.jj(["workspace", "add", "--name", "plain", "-r", "kk-parent@", plain]);
    await rig.cascade.refreshToFrontier();
    return new Boundaries(rig, parent, child, plain);
  }

  async rows(kind: Kind, samples: number): Promise<Row[]> {
    const [bare, kiki]: [number[], number[]] = [[], []];
    for (let n = -WARM_UP; n < samples; n += 1) {
      await this.#move(kind);
      const times = [await this.#timed(() => this.#bare(kind)), await this.#boundary()];
      if (n < 0) continue;
      bare.push(times[0]!);
      kiki.push(times[1]!);
    }
    const floor = floorRow(NAMES[kind].floor, bare);
    return [floor, ratioRow(NAMES[kind].kiki, kiki, floor, TARGET)];
  }

  async #move(kind: Kind): Promise<void> {
    const { repo } = this.#rig;
    this.#moves += 1;
    if (kind === "advance") await repo.jj(["new", "-m", `step ${this.#moves}`], this.#parent.path);
    const file = `src/part-1/file-${1 + 40 * (this.#moves % 20)}.ts`;
    repo.write(file, `export const n = -${this.#moves};\n`, this.#parent.path);
    await repo.jj(["util", "snapshot"], this.#parent.path);
  }

  async #bare(kind: Kind): Promise<void> {
    const { jj, repo } = this.#rig;
    const log = async (op: string, revset: string): Promise<void> => {
      await repo.jj(["--at-op", op, "log", "--no-graph", "-r", revset, "-T", "commit_id"]);
    };
    const [op] = await jj.heads();
    await log(op!, "plain@");
    if (kind === "advance") {
      const to = ["rebase", "--keep-divergent", "-r", "plain@", "-o", "kk-parent@"];
      const staged = await repo.tryJj(["--at-op", op!, "--no-integrate-operation", ...to]);
      const id = /requested: ([0-9a-f]+)/.exec(staged.stderr)?.[1];
      if (id === undefined) throw new Error(`nothing staged: ${staged.stderr}`);
      await log(id, "plain@");
      await repo.jj(["--ignore-working-copy", "op", "integrate", id]);
    }
    await repo.jj(["workspace", "update-stale"], this.#plain);
    const [after] = await jj.heads();
    await log(after!, "plain@");
    await log(after!, "kk-parent@::plain@");
  }

  /** From the agent's call to the refusal that carries the payload. What was detected before is not part of it. */
  async #boundary(): Promise<number> {
    await this.#rig.cascade.refreshToFrontier();
    let told = "";
    const call = this.#agent.newId();
    const time = await this.#timed(async () => {
      told = (await this.#agent.call(call)).text ?? "";
    });
    if (!told.includes("What changed in your base"))
      throw new Error(`not brought up to date: ${told}`);
    await this.#agent.close([{ toolUseId: call, text: told }]);
    // A later turn acknowledges; two blocked batches in a row would make the next one wait.
    await this.#agent.batch();
    return time;
  }

  async #timed(body: () => Promise<void>): Promise<number> {
    const began = performance.now();
    await body();
    return performance.now() - began;
  }
}

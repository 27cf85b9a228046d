/**
 * What kiki costs a person who waits: from the start of the harness to its first question to the model, and per tool call,
 * each as a ratio to the same program in the same run without kiki and without hooks. Figures, no verdicts: a noisy
 * machine must not fail the gate. That the runs did what they should is checked.
 */
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { percentile } from "../../../scripts/bench/stats.ts";
import { runInPane, tmuxOn } from "../../support/tmux.ts";
import { waitFor } from "../../support/wait.ts";
import { makeWorld, type World } from "../../support/world.ts";
import { readRepoDb } from "../story.ts";
import { STEP_MS } from "../model.ts";
import type { LoopbackProof } from "../namespace.ts";
import { kikiFolder, type GateOptions } from "../options.ts";
import type { Report } from "../report.ts";
import { claudeKit } from "./claude.ts";
import { codexKit } from "./codex.ts";
import { CALLS, type CostKit } from "./kit.ts";

const STARTS = 3;

type MakeKit = (dir: string, repo: string) => Promise<CostKit>;
const KITS: readonly MakeKit[] = [claudeKit, codexKit];

interface Figures {
  /** Program started → model asked, ms. */
  start: number;
  /** Between two questions to the model, ms: one tool call. */
  call: number;
}

export async function cost(
  report: Report,
  _proof: LoopbackProof,
  options: GateOptions,
): Promise<void> {
  report.heading("cost: what kiki adds, against the same program without it in the same run");
  for (const makeKit of KITS) {
    const dir = mkdtempSync(join(options.folder, "cost-"));
    const kit = await makeKit(dir, join(dir, "shop"));
    const world = await makeWorld({ dir, path: [kit.bin, kikiFolder(options.folder)] });
    Object.assign(world.env, kit.env);
    try {
      await world.register();
      await compare(report, world, kit);
    } finally {
      if (!options.keep) await world.close();
      await kit.model.close();
    }
  }
}

async function compare(report: Report, world: World, kit: CostKit): Promise<void> {
  const bare: Figures[] = [];
  const threads: (Figures & { ready: number })[] = [];
  // In turns, so that whatever else the machine does meets both.
  for (let i = 1; i <= STARTS; i += 1) {
    bare.push(await runBare(world, kit, `bare${i}`));
    threads.push(await runThread(world, kit, `thread${i}`));
  }
  const of = <T>(rows: readonly T[], field: (row: T) => number): number => median(rows.map(field));
  const start = of(bare, (r) => r.start);
  const call = of(bare, (r) => r.call);
  const withKiki = {
    start: of(threads, (r) => r.start),
    call: of(threads, (r) => r.call),
    ready: of(threads, (r) => r.ready),
  };
  const line = (what: string, without: number, kiki: number): string =>
    `  ${kit.harness} ${kit.version}  ${what}: ${kiki.toFixed(0)} ms, without kiki ${without.toFixed(0)} ms: ${(kiki / without).toFixed(2)} ×`;
  report.say(line("program started → ready", start, withKiki.ready));
  report.say(line("program started → model asked", start, withKiki.start));
  report.say(
    `${line("one tool call and the next question", call, withKiki.call)}, ${(withKiki.call - call).toFixed(1)} ms more`,
  );
  report.check(
    `${kit.harness}: ${STARTS} starts of ${CALLS} calls each, with and without kiki, ran to their end`,
    bare.length === STARTS && threads.length === STARTS,
  );
}

async function runBare(world: World, kit: CostKit, word: string): Promise<Figures> {
  const socket = join(world.dir, `${word}.sock`);
  const from = Date.now();
  runInPane({ socket, env: world.env, cwd: world.repo.root, command: kit.bare(word) });
  try {
    return await figures(kit, word, from);
  } finally {
    await tmuxOn(socket).kill();
  }
}

async function runThread(
  world: World,
  kit: CostKit,
  word: string,
): Promise<Figures & { ready: number }> {
  await world.newThread([word, "-m", kit.prompt(word), ...kit.thread]);
  const row = readRepoDb(world, (db) =>
    db
      .query<{ from: number; ready: number }, [string]>(
        'SELECT g.created_at AS "from", s.ready_at AS ready FROM agent_sessions s JOIN threads t USING (thread_id) JOIN launch_gates g USING (agent_session_id) WHERE t.name = ?',
      )
      .get(word),
  );
  if (row === null) throw new Error(`${word} has no session`);
  return { ...(await figures(kit, word, row.from)), ready: row.ready - row.from };
}

async function figures(kit: CostKit, word: string, from: number): Promise<Figures> {
  await waitFor(
    () => kit.askedAt(word).length > CALLS,
    STEP_MS,
    () => `${word}: the model was asked ${kit.askedAt(word).length} times`,
  );
  const asked = kit.askedAt(word);
  const gaps = asked.slice(1, CALLS + 1).map((at, i) => at - asked[i]!);
  return { start: asked[0]! - from, call: median(gaps) };
}

function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** A world whose threads run the real Codex with a scripted model: made by `kk new`, watched from outside. */
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  callOutputs,
  itemText,
  startCodexModelServer,
  toolNames,
  type CodexModelServer,
  type CodexRequest,
  type CodexScripts,
  type CodexStep,
  type ModelItem,
} from "../../fixtures/model-servers/codex.ts";
import { CodexHarness } from "../../src/backends/harness/codex/adapter.ts";
import { waitFor } from "../support/wait.ts";
import { makeWorld, type World } from "../support/world.ts";
import { submit, type Composer } from "./codex-model.ts";
import { providerSettings } from "./codex-provider.ts";
import { HARNESS_BIN } from "./install.ts";
import { makeCues, STEP_MS, type Cues } from "./model.ts";
import { kikiFolder, type GateOptions } from "./options.ts";
import type { Report } from "./report.ts";
import { agentPane, explain, sessionOf, type Sessions } from "./story.ts";

export interface Stage {
  world: World;
  model: CodexModelServer;
  cues: Cues;
  harness: CodexHarness;
  /** Workspace of a thread. */
  at(thread: string): string;
}

export const EXPECTED = new CodexHarness();
const FAMILY_PARENT = "parser";

/** The answer once that has been said. */
export const after =
  (cues: Cues, cue: string, items: readonly ModelItem[]): CodexStep =>
  async () => {
    await cues.taken(cue);
    return items;
  };

/** Whether the newest input is the start-up delivery of a replacement. */
export function toldAtStart(request: CodexRequest): boolean {
  return /\[\[kiki:[^\]]+\]\]/.test(firstInput(request));
}

/** Text of the newest message that is a person's, or kiki's in their place. */
export function firstInput(request: CodexRequest): string {
  const users = request.body.input.filter((item) => item["role"] === "user").map(itemText);
  return users.findLast((text) => text.includes("[kiki]") || text.includes("SCRIPT:")) ?? "";
}

/** The replacement gets the answer; who is asked before it never gets one. */
export const onceTold =
  (cues: Cues, items: readonly ModelItem[], cue?: string): CodexStep =>
  async (request) => {
    await cues.taken(toldAtStart(request) ? (cue ?? "told at start") : "never");
    return items;
  };

/** Runs one story in a world of its own; `scripts` are told where threads work. */
export async function onStage(
  report: Report,
  options: GateOptions,
  name: string,
  scripts: (cues: Cues, at: (thread: string) => string) => CodexScripts,
  story: (stage: Stage) => Promise<void>,
): Promise<void> {
  const dir = mkdtempSync(join(options.folder, `${name}-`));
  const cues = makeCues();
  cues.give("told at start");
  const at = (thread: string): string => join(dir, `shop-kiki-${thread}`);
  const model = startCodexModelServer({
    scripts: scripts(cues, at),
    recordDir: join(dir, "model"),
  });
  const world = await makeWorld({
    dir,
    path: [HARNESS_BIN, kikiFolder(options.folder)],
    files: { "AGENTS.md": "Tests go beside what they test.\n" },
  });
  try {
    const own = join(world.env["HOME"] ?? dir, ".codex");
    mkdirSync(own, { recursive: true });
    writeFileSync(join(own, "auth.json"), '{"OPENAI_API_KEY":"sk-gate-no-real-key"}\n');
    await world.register();
    await story({ world, model, cues, harness: EXPECTED, at });
  } catch (error) {
    explain(report, world);
    throw error;
  } finally {
    if (!options.keep) await world.close();
    await model.close();
  }
}

/** Words after `kk new` for a thread of that name on the scripted model. */
export function codexWords({ model }: Pick<Stage, "model">, name: string): string[] {
  const settings = providerSettings(model.url).flatMap((setting) => [
    "--harness-arg=-c",
    `--harness-arg=${setting}`,
  ]);
  const prompt = ["-m", `Work on ${name}. SCRIPT:${name}`];
  return [name, ...prompt, "--harness", "codex", ...settings];
}

export async function codexThread(
  stage: Pick<Stage, "world" | "model">,
  name: string,
  ...words: string[]
): Promise<void> {
  await stage.world.newThread([...codexWords(stage, name), ...words]);
}

/** The request with which Codex asks for that step of a script; its side questions have no shell. */
export function asked(
  stage: Pick<Stage, "model">,
  script: string,
  step: number,
): Promise<CodexRequest> {
  return stage.model.waitFor(
    (r) => r.script === script && r.step === step && toolNames(r).includes("exec_command"),
    STEP_MS,
  );
}

/** The request whose newest input is the start-up delivery of a replacement, after `count` others. */
export async function askedByReplacement(
  { model }: Pick<Stage, "model">,
  script: string,
  payload: string,
  count = 0,
): Promise<CodexRequest> {
  const all = (): CodexRequest[] =>
    model.requests.filter(
      (r) =>
        r.script === script &&
        toldAtStart(r) &&
        firstInput(r).startsWith(payload) &&
        toolNames(r).includes("exec_command"),
    );
  await waitFor(
    () => all().length > count,
    STEP_MS,
    () => `replacement ${count + 1} of ${script} asks; ${model.requests.length} requests`,
  );
  return all()[count]!;
}

export function outputs(request: CodexRequest): Map<string, string> {
  return new Map(callOutputs(request.body.input).map(({ callId, text }) => [callId, text]));
}

/** The terminal of a thread's agent. */
export function composerOf(world: World, thread: string): Composer {
  const pane = agentPane(world, thread);
  return {
    type: (text) => void world.tmux.ok("send-keys", "-t", pane, "-l", "--", text),
    enter: () => void world.tmux.ok("send-keys", "-t", pane, "Enter"),
    screen: () => world.tmux.ok("capture-pane", "-p", "-t", pane),
  };
}

/** Types a prompt at the thread's agent. */
export async function prompt(
  { world }: Pick<Stage, "world">,
  thread: string,
  text: string,
): Promise<void> {
  await submit(composerOf(world, thread), text);
}

/** A person changes the parent with jj, and kiki has seen it. */
export async function personMoves(
  { world, at }: Pick<Stage, "world" | "at">,
  child: string,
  version: string,
): Promise<void> {
  const parent = at(FAMILY_PARENT);
  writeFileSync(join(parent, "parser.ts"), `export const version = "${version}";\n`);
  await world.repo.jj(["describe", "-m", `parser ${version}`], parent);
  await waitFor(
    async () => (await world.state(child)).intents.some((i) => i.state === "Detected"),
    STEP_MS,
    `the move to ${version} detected`,
  );
}

/** A parent whose agent only says that it is ready, at v1; then the child. */
export async function family(stage: Stage, child: string): Promise<void> {
  await codexThread(stage, FAMILY_PARENT);
  const { world } = stage;
  const parent = stage.at(FAMILY_PARENT);
  writeFileSync(join(parent, "parser.ts"), 'export const version = "v1";\n');
  await world.repo.jj(["describe", "-m", "parser v1"], parent);
  await codexThread(stage, child, "--follows", FAMILY_PARENT);
  await asked(stage, child, 1);
}

/** Kills the thread's Codex, as a crash would. Returns what it was. */
export function kill(world: World, thread: string): Sessions {
  const session = sessionOf(world, thread);
  if (session === null) throw new Error(`${thread} has no agent`);
  process.kill(session.pid, "SIGKILL");
  return session;
}

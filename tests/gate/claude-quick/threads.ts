/**
 * Threads on the real Claude Code that says another version and lacks one behaviour: without the end of a batch its agent
 * is told by a restart alone; where a project's hooks run in it, no agent gets a prompt.
 */
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  startModelServer,
  type ModelBlock,
  type ModelScripts,
  type ModelServer,
  type RecordedRequest,
} from "../../../fixtures/model-servers/claude.ts";
import { claudeShim, type ShimBehaviour } from "../../support/claude-shim.ts";
import { waitFor } from "../../support/wait.ts";
import { makeWorld, type World } from "../../support/world.ts";
import { makeClaudeHome } from "../claude-home.ts";
import { readRepoDb } from "../story.ts";
import { CLAUDE, HARNESS_BIN } from "../install.ts";
import { asked, bash, makeCues, say, STEP_MS, type Cues } from "../model.ts";
import { kikiFolder, type GateOptions } from "../options.ts";
import type { Report } from "../report.ts";

const WITHOUT_DIALOGS = ["--harness-arg=--permission-mode", "--harness-arg=bypassPermissions"];

export async function threadsOfUnknownVersions(
  report: Report,
  options: GateOptions,
): Promise<void> {
  const dir = mkdtempSync(join(options.folder, "quick-"));
  const cues = makeCues();
  const child = join(dir, "shop-kiki-tests");
  const model = startModelServer({ scripts: scripts(child, cues), recordDir: join(dir, "model") });
  const home = makeClaudeHome(dir, join(dir, "shop"), model.url);
  writeFileSync(home.userSettings, JSON.stringify({ skipDangerousModePermissionPrompt: true }));
  const world = await makeWorld({ dir, path: [HARNESS_BIN, kikiFolder(options.folder)] });
  Object.assign(world.env, home.env);
  try {
    await world.register();
    await refused(report, world, model);
    await restartOnly(report, world, model, cues);
  } catch (error) {
    report.block("kkd.log", readFileSync(join(world.stateDir, "kkd.log"), "utf8").slice(-4_000));
    throw error;
  } finally {
    if (!options.keep) await world.close();
    await model.close();
  }
}

function scripts(child: string, cues: Cues): ModelScripts {
  // Asked once more by the one that is ended, and then by its replacement.
  const told = async ({ raw }: RecordedRequest): Promise<ModelBlock[]> => {
    if (raw.includes("toolu_seen")) return [say("Seen.")];
    if (!raw.includes("[[kiki:")) await cues.taken("never");
    return [bash(`cat ${join(child, "parser.ts")}`, "toolu_seen")];
  };
  return {
    parser: [() => [say("Ready.")]],
    loud: [() => [say("I was asked.")]],
    tests: [
      () => [bash("echo begun")],
      async () => {
        await cues.taken("go");
        return [bash(`touch ${join(child, "refused.txt")}`, "toolu_refused")];
      },
      told,
      told,
      told,
      told,
    ],
  };
}

function asVersion(world: World, behaviour: ShimBehaviour): void {
  world.env["PATH"] = `${claudeShim(world.dir, behaviour, CLAUDE)}:${world.env["PATH"]}`;
}

async function refused(report: Report, world: World, model: ModelServer): Promise<void> {
  report.heading("A version in which a project's hooks run");
  const path = world.env["PATH"]!;
  asVersion(world, "runs-project-hooks");
  const made = await world.kkOnTerminal(
    ["new", "loud", "-m", "SCRIPT:loud", "--detach", ...WITHOUT_DIALOGS],
    "y",
  );
  world.env["PATH"] = path;
  const screen = made.screen.replace(/\s+/g, " ");
  report.check(
    "refused, because kiki's hook is not the only one",
    made.code !== 0 &&
      screen.includes("cannot prove that its hook is the only one (hooks that are not kiki's ran"),
    made.screen,
  );
  report.check(
    "nothing was made, and no model was asked",
    (await world.threads()).length === 0 && !model.requests.some((r) => r.raw.includes("SCRIPT:")),
  );
}

async function restartOnly(
  report: Report,
  world: World,
  model: ModelServer,
  cues: Cues,
): Promise<void> {
  report.heading("A version that does not say when a batch is over");
  const parent = join(world.dir, "shop-kiki-parser");
  await world.newThread(["parser", "-m", "SCRIPT:parser", ...WITHOUT_DIALOGS]);
  await change(world, parent, "v1");
  asVersion(world, "no-batch-event");
  const follow = ["tests", "--follows", "parser", "-m", "SCRIPT:tests", ...WITHOUT_DIALOGS];
  await world.newThread(follow);
  await asked(model, "tests", 1);
  await change(world, parent, "v2");
  await state(world, "Detected");
  cues.give("go");
  await state(world, "Acknowledged");
  const intent = newest(world)!;
  report.check(
    "told by a restart and acknowledged, at the first attempt",
    intent.delivery_mode === "RestartStartup" && intent.soft_redelivery_count === 0,
    JSON.stringify(intent, null, 1),
  );
  await model.waitFor((r) => r.raw.includes("toolu_seen") && r.raw.includes("v2"), STEP_MS);
  const calls = readRepoDb(world, (db) =>
    db.query<{ answer: string | null }, []>("SELECT answer FROM tool_admissions").all(),
  );
  report.check(
    "no call was ever answered with the payload",
    calls.length > 0 && calls.every(({ answer }) => answer !== "payload"),
    JSON.stringify(calls),
  );
  report.check(
    "the call that was refused has not run",
    !existsSync(join(world.dir, "shop-kiki-tests/refused.txt")),
  );
}

/** The person changes the parent with jj. */
async function change(world: World, parent: string, version: string): Promise<void> {
  writeFileSync(join(parent, "parser.ts"), `export const version = "${version}";\n`);
  await world.repo.jj(["describe", "-m", `parser ${version}`], parent);
}

interface Intent {
  state: string;
  delivery_mode: string | null;
  soft_redelivery_count: number;
}

function newest(world: World): Intent | null {
  return readRepoDb(world, (db) =>
    db.query<Intent, []>("SELECT * FROM sync_intents ORDER BY seq DESC LIMIT 1").get(),
  );
}

async function state(world: World, wanted: string): Promise<void> {
  await waitFor(
    () => newest(world)?.state === wanted,
    STEP_MS,
    () => `${wanted}: ${newest(world)?.state}`,
  );
}

/** A hook that dies, hangs, talks rubbish or is gone: without a barrier the call passes and is written down, under one it is refused. */
import { chmodSync, writeFileSync } from "node:fs";
import { bash, say } from "../model.ts";
import { GARBAGE, passedFiles, passes, refuses, seen, WAYS, type Outcome } from "../outages.ts";
import type { Evidence, Proof, ProofRun } from "../proof.ts";
import { claude } from "./row.ts";
import { ClaudeScene, type StartOptions } from "./scene.ts";

const HOOKS = ["structured_tool_hooks"] as const;

/** One call with a broken hook. */
async function broken(
  run: ProofRun,
  barrier: boolean,
  breakIt: (scene: ClaudeScene) => void,
  start: Partial<StartOptions> = {},
): Promise<Outcome> {
  return ClaudeScene.use(
    run,
    {
      scripts: (scene) => ({
        one: [() => [bash(`touch ${scene.file("ran.txt")}`, "toolu_one")], () => [say("Done.")]],
      }),
    },
    async (scene) => {
      await scene.print({
        prompt: "SCRIPT:one",
        ...start,
        ready: () => {
          if (barrier) writeFileSync(scene.barrier, "intent\n");
          breakIt(scene);
        },
      });
      const passed = passedFiles(scene.passed);
      return { ran: scene.has("ran.txt"), told: scene.told("toolu_one") ?? "", passed };
    },
  );
}

const outages = WAYS.flatMap(({ id, what, breakIt }) => [
  claude(
    `hook-${id}-passes`,
    `${what}, no barrier: the call runs and a passed/ file says so`,
    "under a barrier",
    HOOKS,
    async (run) => passes(await broken(run, run.inverted, breakIt)),
  ),
  claude(
    `hook-${id}-barred`,
    `${what} under a barrier: the call is refused in general words`,
    "no barrier",
    HOOKS,
    async (run) => refuses(await broken(run, !run.inverted, breakIt)),
  ),
]);

export const failures: readonly Proof[] = [
  ...outages,
  claude(
    "hook-garbage",
    "a verdict that is no whole JSON is replaced by a refusal; passed on, the tool would run",
    "the same bytes straight to the harness, without the launcher",
    HOOKS,
    async (run) =>
      refuses(
        await broken(run, false, (scene) => {
          if (run.inverted)
            writeFileSync(
              scene.launcher,
              `#!/bin/sh\n[ "$1" = PreToolUse ] && printf '%s' '${GARBAGE}'\nexit 0\n`,
            );
          else scene.recorder.denyWith(GARBAGE);
        }),
      ),
  ),
  claude(
    "launcher-missing",
    "a launcher that cannot be started blocks the call (onFailure)",
    "the settings without onFailure",
    HOOKS,
    async (run) =>
      blockedByFailure(
        await broken(
          run,
          false,
          (scene) => chmodSync(scene.launcher, 0o600),
          run.inverted ? { settings: withoutOnFailure } : {},
        ),
      ),
  ),
  claude(
    "launcher-timeout",
    "a launcher that outlasts the harness's limit blocks the call (onFailure)",
    "the settings without onFailure",
    HOOKS,
    async (run) =>
      blockedByFailure(
        await broken(run, false, (scene) => scene.recorder.before("sleep 4"), {
          settings: (settings) =>
            patchHooks(run.inverted ? withoutOnFailure(settings) : settings, (hook) => ({
              ...hook,
              timeout: 1,
            })),
        }),
      ),
  ),
  claude(
    "stopped-past-timeout",
    "a harness that stood still past its hook's limit takes the refusal that came meanwhile, or refuses by itself",
    "the hook lets the call pass, and no onFailure",
    HOOKS,
    async (run) => {
      // CLAUDE_PID is Claude Code's own, in every hook's environment. Continued only once the hook is over.
      const still =
        'kill -STOP "$CLAUDE_PID"; sleep 3; (sleep 2; kill -CONT "$CLAUDE_PID") </dev/null >/dev/null 2>&1 &';
      const outcome = await broken(
        run,
        false,
        (scene) => {
          scene.recorder.before(still);
          if (!run.inverted) scene.recorder.denyWith(scene.harness.denyOutput("[kiki] not now"));
        },
        {
          settings: (settings) =>
            patchHooks(run.inverted ? withoutOnFailure(settings) : settings, (hook) => ({
              ...hook,
              timeout: 1,
            })),
        },
      );
      const refused = outcome.told.startsWith("PreToolUse:Bash hook error: ");
      return { holds: !outcome.ran && refused, seen: seen(outcome) };
    },
  ),
];

function blockedByFailure(o: Outcome): Evidence {
  return { holds: !o.ran && o.told.includes('onFailure is "block"'), seen: seen(o) };
}

type Json = Record<string, unknown>;

/** Every PreToolUse entry of generated settings, changed. */
function patchHooks(settings: Json, change: (hook: Json) => Json): Json {
  const hooks = settings["hooks"] as Record<string, { hooks: Json[] }[]>;
  const entries = hooks["PreToolUse"]!.map((entry) => ({
    ...entry,
    hooks: entry.hooks.map(change),
  }));
  return { ...settings, hooks: { ...hooks, PreToolUse: entries } };
}

function withoutOnFailure(settings: Json): Json {
  return patchHooks(settings, (hook) =>
    Object.fromEntries(Object.entries(hook).filter(([name]) => name !== "onFailure")),
  );
}

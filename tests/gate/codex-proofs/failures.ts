/** A hook that dies, hangs, talks rubbish or is gone: without a barrier the call passes and is written down, under one it is refused. */
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { hookHash, hookKey } from "../../../fixtures/agents/codex-cli/hook-hash.ts";
import { exec, say } from "../codex-model.ts";
import { GARBAGE, passedFiles, passes, refuses, seen, WAYS, type Outcome } from "../outages.ts";
import type { Evidence, Proof, ProofRun } from "../proof.ts";
import { codex } from "../codex-row.ts";
import { CodexScene, withTrust, type StartChanges, type Table } from "./scene.ts";

const HOOKS = ["structured_tool_hooks"] as const;
/** An agent that waits for a person's decision stands still until there is one: over a weekend, and over holidays. */
const LONGEST_PAUSE_S = 30 * 86_400;

/** One call with a broken hook. */
function broken(
  run: ProofRun,
  barrier: boolean,
  breakIt: (scene: CodexScene) => void,
  start: (scene: CodexScene) => StartChanges = () => ({}),
): Promise<Outcome> {
  const scripts = () => ({ one: [[exec("c_one", "touch ran.txt")], [say("Done.")]] });
  return CodexScene.use(run, { scripts }, async (scene) => {
    await scene.print({
      prompt: "SCRIPT:one",
      ...start(scene),
      ready: () => {
        if (barrier) writeFileSync(scene.barrier, "intent\n");
        breakIt(scene);
      },
    });
    const passed = passedFiles(scene.passed);
    return { ran: scene.has("ran.txt"), told: scene.told("c_one") ?? "", passed };
  });
}

const outages = WAYS.flatMap(({ id, what, breakIt }) => [
  codex(
    `hook-${id}-passes`,
    `${what}, no barrier: the call runs and a passed/ file says so`,
    "under a barrier",
    HOOKS,
    async (run) => passes(await broken(run, run.inverted, breakIt)),
  ),
  codex(
    `hook-${id}-barred`,
    `${what} under a barrier: the call is refused in general words`,
    "no barrier",
    HOOKS,
    async (run) => refuses(await broken(run, !run.inverted, breakIt)),
  ),
]);

/** A launcher that answers PreToolUse with these words of sh, and everything else with nothing. */
function replaced(scene: CodexScene, answer: string): void {
  writeFileSync(scene.launcher, `#!/bin/sh\n[ "$1" = PreToolUse ] || exit 0\n${answer}\nexit 0\n`);
}

/** kiki's PreToolUse entry, changed, and trusted as it then is. */
function hookChanged(
  scene: CodexScene,
  change: (hook: { command: string; timeout: number }) => { command: string; timeout: number },
): (config: Table) => Table {
  return (config) => {
    const hooks = config["hooks"] as Record<
      string,
      { hooks: { type: string; command: string; timeout: number }[] }[]
    >;
    const entry = hooks["PreToolUse"]![0]!.hooks[0]!;
    const changed = { ...entry, ...change(entry) };
    const key = hookKey(join(scene.codexHome, "config.toml"), "PreToolUse", 0, 0);
    const trusted_hash = hookHash("PreToolUse", {
      command: changed.command,
      timeout: changed.timeout,
    });
    return withTrust(
      { ...config, hooks: { ...hooks, PreToolUse: [{ hooks: [changed] }] } },
      { [key]: { trusted_hash } },
    );
  };
}

/** The launcher is gone; straight, kiki's entry ends in words that refuse, and without them the call would pass. */
const withoutLastLine = (scene: CodexScene): StartChanges => ({
  config: hookChanged(scene, (hook) => ({ ...hook, command: hook.command.split(" || ")[0]! })),
});

const refusedByLastLine = (o: Outcome): Evidence => ({
  holds: !o.ran && o.told.includes("the hook of this call cannot be run"),
  seen: seen(o),
});

/** Straight to Codex, each of them lets the tool run: hence a launcher that lets nothing but a whole verdict through. */
const OPEN: readonly { id: string; what: string; answer: string }[] = [
  { id: "garbage", what: "half of a JSON object", answer: `printf '%s' '${GARBAGE}'` },
  { id: "text", what: "plain text", answer: "echo no" },
  {
    id: "unknown-field",
    what: "a denial with a field that Codex does not know",
    answer: `printf '%s' '{"kiki":1,"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"kiki"}}'`,
  },
];
const WHOLE = `printf '%s' '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"kiki"}}'`;

const rubbish = OPEN.map(({ id, what, answer }) =>
  codex(
    `fails-open-${id}`,
    `${what} straight to Codex lets the tool run: only a well-formed denial does not`,
    "a well-formed denial",
    [],
    async (run) => {
      const o = await broken(run, false, (scene) => replaced(scene, run.inverted ? WHOLE : answer));
      return { holds: o.ran, seen: seen(o) };
    },
  ),
);

export const failures: readonly Proof[] = [
  ...outages,
  ...rubbish,
  codex(
    "hook-garbage",
    "a verdict that is no whole JSON is replaced by a refusal",
    "the same bytes straight to Codex, without the launcher",
    HOOKS,
    async (run) =>
      refuses(
        await broken(run, false, (scene) => {
          if (run.inverted) replaced(scene, `printf '%s' '${GARBAGE}'`);
          else scene.recorder.denyWith(GARBAGE);
        }),
      ),
  ),
  codex(
    "launcher-missing",
    "a launcher that cannot be started refuses the call (|| exit 2)",
    "the command without its last words",
    HOOKS,
    async (run) =>
      refusedByLastLine(
        await broken(
          run,
          false,
          // Root may run what nobody may: it has to be gone.
          (scene) => renameSync(scene.launcher, `${scene.launcher}.away`),
          run.inverted ? withoutLastLine : () => ({}),
        ),
      ),
  ),
  codex(
    "launcher-killed",
    "a launcher that is killed refuses the call (|| exit 2)",
    "the command without its last words",
    HOOKS,
    async (run) =>
      refusedByLastLine(
        await broken(
          run,
          false,
          (scene) => replaced(scene, "kill -9 $$"),
          run.inverted ? withoutLastLine : () => ({}),
        ),
      ),
  ),
  codex(
    "hook-timeout",
    "Codex waits for a hook as long as kiki's own slow path may take (30 s) and then does what it says",
    "a time-out below it: Codex goes on without the hook, and the tool runs",
    HOOKS,
    async (run) => {
      const seconds = 32;
      const o = await broken(
        run,
        false,
        (scene) => {
          scene.recorder.before(`sleep ${run.inverted ? 4 : seconds}`);
          scene.recorder.denyWith(scene.harness.denyOutput("[kiki] not now"));
        },
        (scene) =>
          run.inverted ? { config: hookChanged(scene, (hook) => ({ ...hook, timeout: 1 })) } : {},
      );
      return { holds: !o.ran && o.told.includes("[kiki] not now"), seen: seen(o) };
    },
  ),
  codex(
    "stopped-at-hook",
    "a Codex that stood still takes the refusal that came meanwhile, because the limit that kiki gives the hook outlasts any pause",
    "a limit that has passed: it runs the tool although the hook had refused it",
    HOOKS,
    async (run) => {
      let limit = 0;
      // Recorder, launcher, login shell, Codex. Continued only once the hook is over.
      const still = `up() { sed 's/.*) [A-Z] //' "/proc/$1/stat" | cut -d' ' -f1; }
harness=$(up "$(up "$PPID")"); grep -q codex "/proc/$harness/comm" || exit 3
kill -STOP "$harness"; sleep 3; (sleep 2; kill -CONT "$harness") </dev/null >/dev/null 2>&1 &`;
      const o = await broken(
        run,
        false,
        (scene) => {
          scene.recorder.before(still);
          scene.recorder.denyWith(scene.harness.denyOutput("[kiki] not now"));
        },
        (scene) => ({
          config: hookChanged(scene, (hook) => {
            limit = hook.timeout;
            return run.inverted ? { ...hook, timeout: 1 } : hook;
          }),
        }),
      );
      if (o.passed > 0) throw new Error("Codex was not found above its hook");
      return {
        holds: !o.ran && o.told.includes("[kiki] not now") && limit >= LONGEST_PAUSE_S,
        seen: `the generated limit is ${limit} s; ${seen(o)}`,
      };
    },
  ),
];

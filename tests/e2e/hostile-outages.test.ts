/**
 * Every way in which a hook can fail to hear from the daemon, each without and under a barrier: the launcher of a live
 * thread with the real kk-hook and the real daemon, or with what stands in kk-hook's place when it is gone or broken.
 */
import { chmodSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { shellQuote } from "../../src/backends/harness/launcher.ts";
import { genericDenyOutput } from "../../src/core/generic-deny.ts";
import type { HookResult } from "../support/hook-runner.ts";
import { LiveHook } from "../support/live-hook.ts";
import { waitFor } from "../support/wait.ts";
import { initialised, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
/** The answer takes a second by the hook's own clock; the rest is for starting processes on a busy machine. */
const SOON_MS = 4_000;

let w: World;
let one: LiveHook;
beforeAll(async () => {
  w = await initialised();
  one = await LiveHook.start(w, "one");
});
afterAll(() => w.close());

/** While the daemon takes connections and answers nobody. */
async function stoodStill<T>(run: () => Promise<T>): Promise<T> {
  const daemon = w.daemonPid();
  process.kill(daemon, "SIGSTOP");
  try {
    return await run();
  } finally {
    process.kill(daemon, "SIGCONT");
  }
}

const ask = (id: string, launcher = one.launcher): Promise<HookResult> =>
  one.run("PreToolUse", one.call(id), one.secret, { launcher });

/** kk-hook's process of the call that runs. */
function sidecar(): Promise<number> {
  return waitFor(
    () => one.processes().find(({ argv }) => argv[0]!.endsWith("/kk-hook"))?.pid ?? null,
    10_000,
    "kk-hook runs",
  );
}

/** The thread's launcher with something else in kk-hook's place. */
function launcherWith(name: string, script: string | null): string {
  const [program, launcher] = [join(w.dir, `${name} program`), join(w.dir, `${name} hook`)];
  const text = readFileSync(one.launcher, "utf8");
  const changed = text.replace(/^verdict=\$\('.*' "\$event"\)$/m, () => {
    return `verdict=$(${shellQuote(program)} "$event")`;
  });
  expect(changed).not.toBe(text);
  writeFileSync(launcher, changed);
  chmodSync(launcher, 0o700);
  if (script !== null) {
    writeFileSync(program, `#!/bin/sh\n${script}\n`);
    chmodSync(program, 0o700);
  }
  return launcher;
}

const GARBAGE = `{"hookSpecificOutput":{"hookEventName":"PreTool`;

/** What happens to the call, and what the log then says of it. */
const ways: Record<string, { ask: (id: string) => Promise<HookResult>; says: RegExp }> = {
  "daemon stopped (SIGSTOP): the hook waits for it past its budget": {
    ask: (id) => stoodStill(() => ask(id)),
    says: /daemon: no answer$/m,
  },
  "the hook itself stalled past its budget, then going on": {
    ask: (id) =>
      stoodStill(async () => {
        const asked = ask(id);
        const pid = await sidecar();
        process.kill(pid, "SIGSTOP");
        await Bun.sleep(1_200); // the stall is what this is about
        process.kill(pid, "SIGCONT");
        return asked;
      }),
    says: /(?:daemon: no answer|payload did not end in time)$/m,
  },
  "hook killed while it waits": {
    ask: (id) =>
      stoodStill(async () => {
        const asked = ask(id);
        process.kill(await sidecar(), "SIGKILL");
        return asked;
      }),
    says: /kk-hook ended with 137$/m,
  },
  "hook binary missing": {
    ask: (id) => ask(id, launcherWith("missing", null)),
    says: /kk-hook ended with 127$/m,
  },
  "output garbled": {
    ask: (id) =>
      ask(id, launcherWith("garbled", `cat >/dev/null; printf '%s' '${GARBAGE}'; exit 0`)),
    says: /kk-hook ended with 0$/m,
  },
};

for (const [i, [name, way]] of Object.entries(ways).entries()) {
  test(`${name}, no barrier → allowed at once, a file and one line say so`, async () => {
    const taken = (): number =>
      // Of a hook that was killed its launcher writes the file alone, without the call's name.
      one.admissions(`toolu_open_${i}`).length + one.admissions("passed:%").length;
    const [before, log, takenBefore] = [one.passed(), one.log(), taken()];
    const result = await way.ask(`toolu_open_${i}`);
    expect([result.code, result.stdout]).toEqual([0, ""]);
    expect(result.ms).toBeLessThan(SOON_MS);
    const line = one.log().slice(log.length);
    expect(line).toMatch(way.says);
    expect(line).toMatch(/^\S+Z PreToolUse (?:toolu_open_\d|-) passed without asking: .*\n$/);
    // The daemon may have taken it up already.
    const added = one.passed().filter((file) => !before.includes(file));
    expect(added.length).toBeLessThanOrEqual(1);
    if (added.length === 0) expect(taken()).toBeGreaterThan(takenBefore);
  });

  test(`${name}, under a barrier → refused in general words, nothing written down as passed`, async () => {
    const [before, log] = [one.passed(), one.log()];
    writeFileSync(one.barrier, "intent\n");
    try {
      const result = await way.ask(`toolu_barred_${i}`);
      expect([result.code, result.stdout.trimEnd()]).toEqual([0, genericDenyOutput()]);
      expect(result.ms).toBeLessThan(SOON_MS);
    } finally {
      rmSync(one.barrier);
    }
    expect(one.passed().filter((file) => !before.includes(file))).toEqual([]);
    expect(one.log()).toBe(log);
  });
}

test("output garbled where the hook says no → refused in general words, barrier or not: a refusal is never lost", async () => {
  const launcher = launcherWith("half", `cat >/dev/null; printf '%s' '${GARBAGE}'; exit 11`);
  const result = await ask("toolu_half", launcher);
  expect([result.code, result.stdout.trimEnd()]).toEqual([0, genericDenyOutput()]);
});

/**
 * A Codex whose upgrade computes another hash of kiki's hooks, or lists them no more: it would run every tool without asking.
 * The whole binary, the scripted Codex, its answer about hooks changed on the way.
 */
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { codexLogin } from "../support/codex-thread.ts";
import { onTerminal } from "../support/person.ts";
import { bash, moments, say } from "../support/scenario.ts";
import { initialised, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
let w: World;
beforeAll(async () => {
  w = await initialised();
  codexLogin(w);
});
afterAll(() => w.close());

/** The person's environment with that Codex first on PATH: `filter` is what sed makes of its app server's answers. */
function upgraded(name: string, filter: string): Record<string, string> {
  const folder = join(w.dir, `codex-${name}`);
  mkdirSync(folder);
  const codex = join(import.meta.dir, "../../fixtures/agents/codex");
  const script = `#!/bin/sh
case $1 in app-server) '${codex}' "$@" | sed -u '${filter}'; exit ;; esac
exec '${codex}' "$@"
`;
  writeFileSync(join(folder, "codex"), script);
  chmodSync(join(folder, "codex"), 0o755);
  return { ...w.env, PATH: `${folder}:${w.env["PATH"]}` };
}

test.each([
  ["changed", 's#"trustStatus":"trusted"#"trustStatus":"modified"#', "hook is modified"],
  ["missing", 's#"hooks":\\[.*\\],"warnings"#"hooks":[],"warnings"#', "does not run kiki's"],
])(
  "trust of kiki's hooks is %s → no thread, nothing was asked of the model; the message names the file and says what to do",
  async (name, filter, says) => {
    const log = join(w.dir, `${name}.ndjson`);
    const prompt = w.scenario(name, { log, responses: [[bash("c1", "echo ran")], [say("done")]] });
    const words = ["kk", "new", name, "--harness", "codex", "-m", prompt, "--detach"];
    const made = await onTerminal(upgraded(name, filter), words, "y", w.repo.root);
    const screen = made.screen.replace(/\s+/g, " ");
    expect(made.code).not.toBe(0);
    expect(screen).toContain(says);
    expect(screen).toContain("config.toml");
    expect(screen).toContain("a Codex that kk doctor calls proved, or a newer kiki");
    const thread = (await w.threads()).find((t) => t.name === name);
    expect([undefined, "CreateFailed"]).toContain(thread?.lifecycle);
    expect(moments(log)).toEqual([]);
  },
);

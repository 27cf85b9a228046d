/** Claude Code in the cost suite. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { startModelServer, type ModelStep } from "../../../fixtures/model-servers/claude.ts";
import { makeClaudeHome } from "../claude-home.ts";
import { CLAUDE, CLAUDE_VERSION, HARNESS_BIN } from "../install.ts";
import { bash, say } from "../model.ts";
import { CALLS, type CostKit } from "./kit.ts";

const WITHOUT_DIALOGS = ["--permission-mode", "bypassPermissions"];

export function claudeKit(dir: string, repo: string): Promise<CostKit> {
  const steps: ModelStep[] = Array.from({ length: CALLS }, () => () => [bash("true")]);
  const cost = [...steps, () => [say("Done.")]];
  const model = startModelServer({ scripts: { cost }, recordDir: join(dir, "model") });
  const home = makeClaudeHome(dir, repo, model.url);
  writeFileSync(home.userSettings, JSON.stringify({ skipDangerousModePermissionPrompt: true }));
  const prompt = (word: string): string => `${word}. SCRIPT:cost`;
  return Promise.resolve({
    harness: "claude-code",
    version: CLAUDE_VERSION,
    bin: HARNESS_BIN,
    model,
    askedAt: (word) =>
      model.requests
        .filter((r) => r.raw.includes(prompt(word)) && (r.body.tools ?? []).length > 0)
        .map((r) => r.at),
    prompt,
    env: home.env,
    bare: (word) => [CLAUDE, ...WITHOUT_DIALOGS, "--", prompt(word)],
    thread: WITHOUT_DIALOGS.map((word) => `--harness-arg=${word}`),
  });
}

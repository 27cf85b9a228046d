/** Codex in the cost suite. Both runs call tools one at a time, by a catalog like kiki's: otherwise they would be two stories. */
import { toolNames, startCodexModelServer } from "../../../fixtures/model-servers/codex.ts";
import { nativeProgram } from "../../../src/backends/harness/codex/program.ts";
import { join } from "node:path";
import { makeCodexHome } from "../codex-home.ts";
import { exec, say } from "../codex-model.ts";
import { providerSettings } from "../codex-provider.ts";
import { CODEX, CODEX_VERSION, HARNESS_BIN } from "../install.ts";
import { CALLS, type CostKit } from "./kit.ts";

export function codexKit(dir: string, repo: string): Promise<CostKit> {
  const steps = Array.from({ length: CALLS }, (_, i) => [exec(`c_${i}`, "true")]);
  const model = startCodexModelServer({
    scripts: { cost: [...steps, [say("Done.")]] },
    recordDir: join(dir, "model"),
  });
  const home = makeCodexHome(dir, { modelUrl: model.url, workspace: repo, hook: null });
  const prompt = (word: string): string => `${word}. SCRIPT:cost`;
  const settings = providerSettings(model.url);
  return Promise.resolve({
    harness: "codex",
    version: CODEX_VERSION,
    bin: HARNESS_BIN,
    model,
    askedAt: (word) =>
      model.requests
        .filter((r) => r.raw.includes(prompt(word)) && toolNames(r).includes("exec_command"))
        .map((r) => r.at),
    prompt,
    // The person's own home; kiki takes the login from there and nothing else.
    env: { CODEX_HOME: home.path },
    // npm's script in front of the program would count for kiki, which starts the program itself.
    bare: (word) => [
      nativeProgram(CODEX),
      "--no-daemon",
      ...settings.flatMap((setting) => ["-c", setting]),
      "--",
      prompt(word),
    ],
    thread: [
      "--harness",
      "codex",
      ...settings.flatMap((setting) => ["--harness-arg=-c", `--harness-arg=${setting}`]),
    ],
  });
}

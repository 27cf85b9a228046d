/** The same through kiki's own door: `kk new --harness codex`, with a prompt and without one, by a real daemon in tmux. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { outputOf, startCodexModelServer } from "../../../fixtures/model-servers/codex.ts";
import { waitFor } from "../../support/wait.ts";
import { makeWorld } from "../../support/world.ts";
import { HARNESS_BIN } from "../install.ts";
import { STEP_MS } from "../model.ts";
import { kikiFolder, type GateOptions } from "../options.ts";
import type { Report } from "../report.ts";
import { exec, submit } from "../codex-model.ts";
import { composerOf } from "../codex-stage.ts";
import { providerSettings } from "../codex-provider.ts";

export async function codexThreads(report: Report, options: GateOptions): Promise<void> {
  report.heading("codex-launch: kk new --harness codex");
  const dir = mkdtempSync(join(options.folder, "codex-threads-"));
  const model = startCodexModelServer({
    scripts: {
      parser: [[exec("c_parser", "echo x > parsed.txt")], [{ type: "text", text: "Done." }]],
      tests: [[exec("c_tests", "cat notes.txt")], [{ type: "text", text: "Done." }]],
    },
    recordDir: join(dir, "model"),
  });
  const world = await makeWorld({
    dir,
    path: [HARNESS_BIN, kikiFolder(options.folder)],
    files: { "notes.txt": "one\n", "AGENTS.md": "Tests go beside what they test.\n" },
  });
  try {
    const own = join(world.env["HOME"] ?? dir, ".codex");
    mkdirSync(own, { recursive: true });
    writeFileSync(join(own, "auth.json"), '{"OPENAI_API_KEY":"sk-gate-no-real-key"}\n');
    await world.register();
    const settings = providerSettings(model.url).flatMap((setting) => [
      "--harness-arg=-c",
      `--harness-arg=${setting}`,
    ]);
    const codex = ["--harness", "codex", ...settings];

    await world.newThread(["parser", "-m", "Write the parser. SCRIPT:parser", ...codex]);
    await model.waitFor((r) => outputOf(r, "c_parser") !== undefined, STEP_MS);
    report.check(
      "with a prompt: Active by its session, its first call runs",
      existsSync(join(dir, "shop-kiki-parser/parsed.txt")),
    );
    const asked = model.requests.length;
    await world.newThread(["tests", ...codex]);
    const { harnessSessionId, harness } = await world.state("tests");
    report.check(
      "without one: Active by composer, process and secret, before there is a session",
      harness === "codex" && harnessSessionId === null && model.requests.length === asked,
      String(harnessSessionId),
    );
    await submit(composerOf(world, "tests"), "SCRIPT:tests");
    await model.waitFor((r) => outputOf(r, "c_tests")?.includes("one") === true, STEP_MS);
    await waitFor(
      async () => (await world.state("tests")).harnessSessionId !== null,
      STEP_MS,
      "the session's name",
    );
    report.check("the first prompt names the session", true);
    report.check(
      "nothing but the login is in the person's ~/.codex",
      readdirSync(own).join() === "auth.json",
    );
  } finally {
    if (!options.keep) await world.close();
    await model.close();
  }
}

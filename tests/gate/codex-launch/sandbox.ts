/**
 * A thread whose Codex keeps its own sandbox (`workspace-write`, in which it starts unless a person says otherwise): jj
 * works in the workspace, the rest of the machine stays as it is, and a provider that refuses the generated catalog is
 * told of by its remedy.
 */
import { existsSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import {
  outputOf,
  refusal,
  startCodexModelServer,
  type ModelItem,
} from "../../../fixtures/model-servers/codex.ts";
import { waitFor } from "../../support/wait.ts";
import { makeWorld } from "../../support/world.ts";
import { HARNESS_BIN } from "../install.ts";
import { STEP_MS } from "../model.ts";
import { kikiFolder, type GateOptions } from "../options.ts";
import type { Report } from "../report.ts";
import { providerSettings } from "../codex-provider.ts";

const exec = (call_id: string, cmd: string): ModelItem => ({
  type: "function_call",
  name: "exec_command",
  arguments: { cmd, yield_time_ms: 30_000 },
  call_id,
});
/** Codex runs commands by a login shell, whose profile may set another PATH. */
const JJ_PROGRAM = Bun.which("jj") ?? "jj";
const JJ = [
  "echo one > one.txt",
  `jj() { ${JJ_PROGRAM} "$@"; }`,
  "jj st --quiet",
  "jj describe --quiet -m 'docs: one'",
  "jj new --quiet -m 'docs: two'",
  "jj bookmark create --quiet beside -r @-",
  "jj log --no-graph -r @- -T description",
].join(" && ");

export async function codexSandbox(report: Report, options: GateOptions): Promise<void> {
  report.heading("codex-launch: Codex's own sandbox, and a provider that refuses");
  const dir = mkdtempSync(join(options.folder, "codex-sandbox-"));
  const outside = join(dir, "outside.txt");
  const model = startCodexModelServer({
    scripts: {
      docs: [
        [exec("c_jj", JJ)],
        [exec("c_out", `touch ${outside}; touch ../shop/outside.txt; echo tried`)],
        [{ type: "text", text: "Done." }],
      ],
      refused: [[{ type: "text", text: "never said" }]],
    },
    first: ({ script }) => (script === "refused" ? refusal("parallel_tool_calls") : undefined),
    recordDir: join(dir, "model"),
  });
  const world = await makeWorld({
    dir,
    colocated: true,
    path: [HARNESS_BIN, kikiFolder(options.folder)],
  });
  try {
    await world.register();
    const sandbox = [
      "sandbox_mode=workspace-write",
      // This world lies in a temporary folder, which the sandbox would leave open.
      "sandbox_workspace_write.exclude_slash_tmp=true",
      "sandbox_workspace_write.exclude_tmpdir_env_var=true",
    ];
    const settings = providerSettings(model.url)
      .filter((setting) => !setting.startsWith("sandbox_mode"))
      .concat(sandbox)
      .flatMap((setting) => ["--harness-arg=-c", `--harness-arg=${setting}`]);
    const codex = ["--harness", "codex", ...settings];
    await world.newThread(["docs", "-m", "Write it down. SCRIPT:docs", ...codex]);
    const jj = await model.waitFor((r) => outputOf(r, "c_jj") !== undefined, STEP_MS);
    report.check(
      "jj records, describes, begins a revision and sets a bookmark",
      outputOf(jj, "c_jj")?.includes("docs: one") === true,
      outputOf(jj, "c_jj"),
    );
    const out = await model.waitFor((r) => outputOf(r, "c_out") !== undefined, STEP_MS);
    report.check(
      "nothing else outside of the workspace can be written",
      outputOf(out, "c_out")?.includes("Read-only file system") === true &&
        !existsSync(outside) &&
        !existsSync(join(dir, "shop/outside.txt")),
      outputOf(out, "c_out"),
    );
    await world.newThread(["refused", "-m", "SCRIPT:refused", ...codex]);
    const seen = await waitFor(
      async () =>
        (await world.state("refused")).attention.find((a) => a.kind === "catalog-refused"),
      STEP_MS,
      "an attention about the refusal",
    );
    report.check(
      'a provider that refuses the request: the thread says so and names boundary = "restart"',
      seen.message.includes('[agent.codex] boundary = "restart"'),
      seen.message,
    );
  } finally {
    if (!options.keep) await world.close();
    await model.close();
  }
}

/**
 * Programs that stand in front of the scripted or the real `codex`, say another version, and make one behaviour of it
 * differ: what a version that kiki does not know may be like. What it lists and says of its command line stays as it is.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");
export const UNKNOWN_CODEX = "0.999.0";

export type CodexBehaviour =
  | "behaves"
  | "runs-project-hooks"
  | "asks-nobody"
  | "parallel-calls"
  | "cuts-denies"
  | "ignores-denies"
  | "fails-open"
  | "forgets-turns"
  | "numbers-nothing"
  | "begins-anew"
  | "knows-no-daemon"
  | "hangs"
  | "dies"
  /** With the real program only. */
  | "has-helpers"
  | "feeds-terminals";

/**
 * TypeScript that changes `config`, the launcher (`wrap`), or a copy of the catalog (`models`). A thread is refused where a
 * file of its own was changed after kiki had proved it, so that only versions of the last kind can run one.
 */
const EDITS: Partial<Record<CodexBehaviour, string>> = {
  "runs-project-hooks": `for (const one of Object.values(config.hooks.state)) delete one.enabled;`,
  "asks-nobody": `delete config.hooks.PreToolUse;`,
  "parallel-calls": `for (const model of models) model.use_responses_lite = false;`,
  "ignores-denies": `wrap((p) => p, () => "");`,
  "fails-open": `const [hook] = config.hooks.PreToolUse[0].hooks;
    hook.command = hook.command.split(" || ")[0];
    const key = Object.keys(config.hooks.state).find((k) => k.includes("config.toml:pre_tool_use:") && k.startsWith(home));
    config.hooks.state[key].trusted_hash = hookHash("PreToolUse", hook);`,
  "forgets-turns": `wrap((p) => (p.hook_event_name === "UserPromptSubmit" ? { ...p, turn_id: undefined } : p), (o) => o);`,
  "numbers-nothing": `wrap((p) => {
    if (p.hook_event_name !== "PreToolUse") return p;
    const lines = readFileSync(p.transcript_path, "utf8").split("\\n");
    writeFileSync(p.transcript_path, lines.filter((l) => !l.includes('"token_usage_record"')).join("\\n"));
    return p;
  }, (o) => o);`,
  "has-helpers": `for (const model of models) model.multi_agent_version = "v2";`,
};

const OWN_CATALOG: readonly CodexBehaviour[] = ["parallel-calls", "has-helpers"];

/** `-c` settings after kiki's, which therefore count. */
const SETTINGS: Partial<Record<CodexBehaviour, readonly string[]>> = {
  "cuts-denies": ["tool_output_token_limit=1000"],
  "has-helpers": ["agents.enabled=true", "features.multi_agent_v2=true"],
  "feeds-terminals": ["features.unified_exec_tty=true"],
};

/** Writes the program into `dir`; returns the folder to put first on PATH. `standsFor`: default the scripted agent. */
export function codexShim(
  dir: string,
  behaviour: CodexBehaviour,
  standsFor = join(ROOT, "fixtures/agents/codex"),
): string {
  const folder = join(dir, `codex-${behaviour}`);
  mkdirSync(folder, { recursive: true });
  const edit = EDITS[behaviour];
  if (edit !== undefined) writeFileSync(join(folder, "edit.ts"), editor(edit));
  const catalog = `${folder}/models-$$.json`;
  const settings = [
    ...(SETTINGS[behaviour] ?? []),
    ...(OWN_CATALOG.includes(behaviour) ? [`model_catalog_json=\\"${catalog}\\"`] : []),
  ];
  const more = settings.map((setting) => ` -c "${setting}"`).join("");
  const last: Partial<Record<CodexBehaviour, string>> = {
    hangs: "exec sleep 600",
    dies: "echo Error: cannot go on >&2; exit 3",
  };
  const script = `#!/bin/sh
case $1 in
  --version) echo 'codex-cli ${UNKNOWN_CODEX}'; exit 0 ;;
  app-server | debug) exec '${standsFor}' "$@" ;;
esac
help= after= resumed= n=$#
while [ $n -gt 0 ]; do
  word=$1 keep=1; shift
  if [ -z "$after" ]; then
    case $word in
      --help) help=1 ;;
      --no-daemon) ${behaviour === "knows-no-daemon" ? `echo "error: unexpected argument '--no-daemon' found" >&2; exit 2` : ":"} ;;
      resume) ${behaviour === "begins-anew" ? "resumed=1 keep=" : ":"} ;;
      --) after=1; set -- "$@"${more} ;;
    esac
  elif [ -n "$resumed" ]; then resumed= keep=; fi
  [ -z "$keep" ] || set -- "$@" "$word"
  n=$((n - 1))
done
[ -n "$help" ] || { ${last[behaviour] ?? (edit === undefined ? ":" : `'${process.execPath}' '${folder}/edit.ts' "${catalog}"`)}; }
exec '${standsFor}' "$@"
`;
  writeFileSync(join(folder, "codex"), script, { mode: 0o755 });
  return folder;
}

/** A program that changes what kiki has generated in CODEX_HOME. */
function editor(edit: string): string {
  return `import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parse, stringify } from "${ROOT}/node_modules/smol-toml/dist/index.js";
import { hookHash } from "${ROOT}/fixtures/agents/codex-cli/hook-hash.ts";
const home = process.env.CODEX_HOME;
const configFile = join(home, "config.toml"), catalog = join(home, "models.json");
const config = parse(readFileSync(configFile, "utf8"));
const { models } = existsSync(catalog) ? JSON.parse(readFileSync(catalog, "utf8")) : { models: [] };
const before = stringify(config);
/** What the hook is told and what it says is changed on the way. */
function wrap(input, output) {
  const hook = join(dirname(home), "hook");
  renameSync(hook, hook + ".real");
  writeFileSync(hook + ".ts", \`import { readFileSync, writeFileSync } from "node:fs";
    const input = \${input}; const output = \${output};
    const payload = JSON.stringify(input(JSON.parse(await Bun.stdin.text())));
    const child = Bun.spawn([\${JSON.stringify(hook + ".real")}, ...process.argv.slice(2)],
      { stdin: new Blob([payload]), stdout: "pipe" });
    process.stdout.write(output(await child.stdout.text()));
    process.exitCode = await child.exited;\`);
  const bun = ${JSON.stringify(process.execPath)};
  writeFileSync(hook, \`#!/bin/sh\\nexec '\${bun}' '\${hook}.ts' "$1"\\n\`, { mode: 0o700 });
}
${edit}
if (stringify(config) !== before) writeFileSync(configFile, stringify(config));
writeFileSync(process.argv[2], JSON.stringify({ models }));
`;
}

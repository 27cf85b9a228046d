/**
 * Programs that stand in front of the scripted `claude`, say another version, and make one behaviour of it differ: what
 * a version that kiki does not know may be like.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");
export const UNKNOWN_VERSION = "2.1.999";

export type ShimBehaviour =
  | "behaves"
  | "runs-project-hooks"
  | "no-batch-event"
  | "cuts-denies"
  | "ignores-denies"
  | "fails-open"
  | "forgets-prompt-ids"
  | "no-flags"
  | "no-flags-reads-local-only"
  | "hangs"
  | "dies";

/** What of a settings file a behaviour changes; the harness then reads the changed copy. */
const EDITS: Partial<Record<ShimBehaviour, string>> = {
  "no-batch-event": `delete settings.hooks.PostToolBatch;`,
  "cuts-denies": `wrap("PreToolUse", (out) => { const v = JSON.parse(out); const s = v.hookSpecificOutput;
    s.permissionDecisionReason = s.permissionDecisionReason?.slice(0, 2000); return JSON.stringify(v); });`,
  "ignores-denies": `wrap("PreToolUse", () => "");`,
  "fails-open": `for (const g of settings.hooks.PreToolUse) for (const h of g.hooks) delete h.onFailure;`,
  "forgets-prompt-ids": `wrap("UserPromptSubmit", (out) => out, (p) => ({ ...p, prompt_id: undefined }));`,
};

/** Writes the program into `dir`; returns the folder to put first on PATH. `standsFor`: default the scripted agent. */
export function claudeShim(
  dir: string,
  behaviour: ShimBehaviour,
  standsFor = join(ROOT, "fixtures/agents/claude"),
): string {
  const folder = join(dir, `shim-${behaviour}`);
  mkdirSync(folder, { recursive: true });
  const edit = EDITS[behaviour];
  const bun = process.execPath;
  if (edit !== undefined) writeFileSync(join(folder, "edit.ts"), editor(folder, edit));
  const changes = [
    behaviour === "runs-project-hooks" ? `[ "$before" != --setting-sources ] || word=project` : "",
    edit === undefined
      ? ""
      : `[ "$before" != --settings ] || word=$('${bun}' '${folder}/edit.ts' "$word")`,
    behaviour.startsWith("no-flags")
      ? `[ "$word" != --settings ] || { echo "error: unknown option '--settings'" >&2; exit 1; }`
      : "",
  ].filter((line) => line !== "");
  const last = { hangs: "exec sleep 600", dies: "echo cannot go on >&2; exit 3" } as Record<
    string,
    string
  >;
  const script = `#!/bin/sh
if [ "$1" = --version ]; then echo '${UNKNOWN_VERSION} (Claude Code)'; exit 0; fi
before= n=$#
while [ $n -gt 0 ]; do
  word=$1; shift
  was=$word
  ${changes.join("\n  ") || ":"}
  set -- "$@" "$word"
  before=$was n=$((n - 1))
done
${behaviour === "no-flags-reads-local-only" ? 'set -- --setting-sources local "$@"' : ":"}
${last[behaviour] ?? `exec '${standsFor}' "$@"`}
`;
  writeFileSync(join(folder, "claude"), script, { mode: 0o755 });
  return folder;
}

/** A program that prints the path of an edited copy of the settings file it is given. */
function editor(folder: string, edit: string): string {
  return `const settings = JSON.parse(await Bun.file(process.argv[2]).text());
let count = 0;
function wrap(event, output, input) {
  for (const g of settings.hooks[event]) for (const h of g.hooks) {
    const file = \`${folder}/hook-\${process.pid}-\${count++}.ts\`;
    Bun.write(file, \`const input = \${input ?? ((p) => p)}; const output = \${output};
      const text = await Bun.stdin.text();
      const child = Bun.spawn([\${JSON.stringify(h.command)}, ...process.argv.slice(2)],
        { stdin: new Blob([JSON.stringify(input(JSON.parse(text)))]), stdout: "pipe" });
      const out = await child.stdout.text();
      const code = await child.exited;
      if (child.signalCode) process.kill(process.pid, child.signalCode);
      if (out.trim() !== "") process.stdout.write(output(out));
      process.exitCode = code;\`);
    h.args = [file, ...h.args];
    h.command = ${JSON.stringify(process.execPath)};
  }
}
${edit}
const copy = \`${folder}/settings-\${process.pid}.json\`;
await Bun.write(copy, JSON.stringify(settings));
console.log(copy);
export {};
`;
}

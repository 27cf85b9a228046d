/** Everything that must hold before a change goes in: format, types, lint, dead code, tests. */
import { join } from "node:path";
import { ROOT } from "./packages.ts";

const STEPS: readonly { name: string; command: string[]; fix: string }[] = [
  { name: "format", command: ["oxfmt", "--check"], fix: "npm run format" },
  { name: "types", command: ["tsc", "--noEmit"], fix: "" },
  { name: "lint", command: ["oxlint", "--type-aware", "--deny-warnings"], fix: "" },
  {
    name: "dead code",
    command: ["knip"],
    fix: "remove it, or import it where it is meant to be used",
  },
  { name: "tests", command: ["bun", "scripts/test.ts"], fix: "" },
];

const env = {
  ...process.env,
  PATH: `${join(ROOT, ".tools", "bin")}:${join(ROOT, "node_modules", ".bin")}:${process.env["PATH"]}`,
};

const summary: string[] = [];
let failed = false;
// All of them run even after a failure: one look then shows everything there is to mend.
for (const { name, command, fix } of STEPS) {
  console.log(`\n== ${name}`);
  const started = performance.now();
  const child = Bun.spawn(command, { cwd: ROOT, env, stdio: ["ignore", "inherit", "inherit"] });
  const ok = (await child.exited) === 0;
  failed ||= !ok;
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  const hint = ok || fix === "" ? "" : `  → ${fix}`;
  summary.push(`${ok ? "ok    " : "FAILED"}  ${name.padEnd(10)} ${seconds.padStart(6)} s${hint}`);
}
console.log(`\n== summary\n${summary.join("\n")}`);
process.exit(failed ? 1 : 0);

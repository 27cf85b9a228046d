/**
 * Runs the crash matrix and says how many points there are and how many held, in one last line:
 * `crash points: N enumerated, N survived (S s)`. Fails unless the two are equal and every test passed.
 *
 *   bun scripts/test-crash.ts [bun test options]
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { testFiles } from "./junit.ts";
import { ROOT } from "./packages.ts";
import { exitWith, runSuite } from "./suite.ts";

/** Distinct names of each kind of line (tests/support/crash-report.ts). */
function figures(report: string): { enumerated: Set<string>; survived: Set<string> } {
  const found = { enumerated: new Set<string>(), survived: new Set<string>() };
  for (const line of report.split("\n")) {
    const [what, name] = line.split("\t");
    if (name === undefined || (what !== "enumerated" && what !== "survived")) continue;
    found[what].add(name);
  }
  return found;
}

await exitWith(async () => {
  const began = performance.now();
  // Not in the run's own folder, where every file a test leaves is a fault.
  const folder = mkdtempSync(join(tmpdir(), "kiki-crash-report-"));
  const file = join(folder, "points");
  writeFileSync(file, "");
  try {
    const result = await runSuite({
      files: testFiles(ROOT).filter((name) => name.startsWith("tests/crash/")),
      options: process.argv.slice(2),
      env: { KIKI_TEST_CRASH_REPORT: file },
    });
    const { enumerated, survived } = figures(readFileSync(file, "utf8"));
    const lost = [...enumerated].filter((name) => !survived.has(name));
    if (lost.length > 0) console.log("\ndid not survive:");
    for (const name of lost) console.log(`  ${name}`);
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    console.log(
      `crash points: ${enumerated.size} enumerated, ${survived.size} survived (${seconds} s)`,
    );
    const good = enumerated.size > 0 && lost.length === 0 && survived.size === enumerated.size;
    return good && result.failures.length === 0 ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

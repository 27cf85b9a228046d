/**
 * Runs the test suite and says what came of it in one last line: `N passed, N failed`.
 *
 *   bun scripts/test.ts [words…] [bun test options]    words select test files by path
 *
 * What it adds to bun's own runner is in suite.ts.
 */
import { testFiles } from "./junit.ts";
import { ROOT } from "./packages.ts";
import { exitWith, runSuite } from "./suite.ts";

/** Test files to run, and the options to hand to bun. */
function selection(args: string[]): { files: string[]; options: string[] } {
  const words: string[] = [];
  const options: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] ?? "";
    if (!arg.startsWith("-")) words.push(arg);
    else options.push(arg);
    // The one option of bun test that is commonly written with its value as a separate word.
    if (arg === "-t" || arg === "--test-name-pattern") options.push(args[++i] ?? "");
  }
  const files = testFiles(ROOT).filter(
    (file) => words.length === 0 || words.some((word) => file.includes(word.replace(/^\.\//, ""))),
  );
  return { files, options };
}

await exitWith(async () => {
  const { files, options } = selection(process.argv.slice(2));
  if (files.length === 0) {
    console.log("no test file matches");
    console.log("0 passed, 1 failed");
    return 1;
  }
  const result = await runSuite({ files, options, env: {} });
  const skipped = result.skipped > 0 ? `, ${result.skipped} skipped` : "";
  console.log(`${result.passed} passed, ${result.failures.length} failed${skipped}`);
  return result.failures.length > 0 ? 1 : 0;
});

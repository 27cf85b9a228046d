/** What a gate run prints: a story of checked claims, and their count in the last line. */

/** Lines of a failure's detail in the last words; all of them stand where it was checked. */
const WHY_LINES = 12;

export interface Report {
  readonly passed: number;
  readonly failed: number;
  /** What did not hold, each under the heading it was checked under: a long run's last words say it again. */
  readonly failures: readonly string[];
  heading(text: string): void;
  say(text: string): void;
  /** Prints the claim with its verdict; `detail` only when it does not hold. */
  check(claim: string, holds: boolean, detail?: string | (() => string)): void;
  /** Prints text in a frame of its own. */
  block(title: string, text: string): void;
}

export function makeReport(): Report {
  let passed = 0;
  let under = "";
  const failures: string[] = [];
  const frame = (text: string): void => {
    for (const line of text.trimEnd().split("\n")) console.log(`  │ ${line}`);
  };
  return {
    get passed() {
      return passed;
    },
    get failed() {
      return failures.length;
    },
    failures,
    heading(text) {
      under = text;
      console.log(`\n${text}\n${"─".repeat(text.length)}`);
    },
    say: (text) => console.log(text),
    check(claim, holds, detail) {
      console.log(`  ${holds ? "✓" : "✗"} ${claim}`);
      if (holds) {
        passed += 1;
        return;
      }
      const why = typeof detail === "function" ? detail() : (detail ?? "");
      if (why !== "") frame(why);
      failures.push(
        [`${under}: ${claim}`, ...why.trim().split("\n").slice(0, WHY_LINES)].join("\n    "),
      );
    },
    block(title, text) {
      console.log(`\n  ${title}`);
      frame(text);
      console.log("");
    },
  };
}

/** What a gate run prints: a story of checked claims, and their count in the last line. */

export interface Report {
  readonly passed: number;
  readonly failed: number;
  heading(text: string): void;
  say(text: string): void;
  /** Prints the claim with its verdict; `detail` only when it does not hold. */
  check(claim: string, holds: boolean, detail?: string | (() => string)): void;
  /** Prints text in a frame of its own. */
  block(title: string, text: string): void;
}

export function makeReport(): Report {
  let passed = 0;
  let failed = 0;
  const frame = (text: string): void => {
    for (const line of text.trimEnd().split("\n")) console.log(`  │ ${line}`);
  };
  return {
    get passed() {
      return passed;
    },
    get failed() {
      return failed;
    },
    heading: (text) => console.log(`\n${text}\n${"─".repeat(text.length)}`),
    say: (text) => console.log(text),
    check(claim, holds, detail) {
      if (holds) passed += 1;
      else failed += 1;
      console.log(`  ${holds ? "✓" : "✗"} ${claim}`);
      if (!holds && detail !== undefined) frame(typeof detail === "string" ? detail : detail());
    },
    block(title, text) {
      console.log(`\n  ${title}`);
      frame(text);
      console.log("");
    },
  };
}

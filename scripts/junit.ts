/** Reading bun's JUnit report, and knowing which files should be in it. */

/** The suite's files relative to the root. tests/gate needs the real harnesses and runs apart. */
export function testFiles(root: string): string[] {
  return [...new Bun.Glob("tests/**/*.test.ts").scanSync({ cwd: root })]
    .filter((file) => !file.startsWith("tests/gate/"))
    .sort();
}

export interface Tally {
  passed: number;
  skipped: number;
  /** One line per failure: "<file>: <test>". */
  failures: string[];
  /** Seconds that the tests of each file took, without its set-up; the slowest first. */
  slowest: { file: string; seconds: number }[];
}

const ENTITIES: Record<string, string> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };

function unescape(text: string): string {
  return text.replace(/&(?:#(\d+)|(\w+));/g, (whole, code: string, name: string) =>
    code ? String.fromCodePoint(Number(code)) : (ENTITIES[name] ?? whole),
  );
}

function attribute(attributes: string, name: string): string {
  return unescape(new RegExp(`(?:^|\\s)${name}="([^"]*)"`).exec(attributes)?.[1] ?? "");
}

/**
 * Counts the test cases of a report. A file of `expected` with no case in it failed to load, or
 * ended the process before it could report: bun prints such an error but reports no case for it.
 */
export function tally(xml: string, expected: string[]): Tally {
  const result: Tally = { passed: 0, skipped: 0, failures: [], slowest: [] };
  const reported = new Map<string, number>();
  for (const match of xml.matchAll(/<testcase\s([^>]*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g)) {
    const [, attributes = "", body = ""] = match;
    const file = attribute(attributes, "file");
    const seconds = Number(attribute(attributes, "time")) || 0;
    reported.set(file, (reported.get(file) ?? 0) + seconds);
    if (/<(failure|error)\b/.test(body)) {
      const suite = attribute(attributes, "classname");
      const name = [suite, attribute(attributes, "name")].filter(Boolean).join(" > ");
      result.failures.push(`${file}: ${name}`);
    } else if (body.includes("<skipped")) {
      result.skipped++;
    } else {
      result.passed++;
    }
  }
  for (const file of expected) {
    if (!reported.has(file)) result.failures.push(`${file}: reported no test (did it load?)`);
  }
  result.slowest = [...reported]
    .map(([file, seconds]) => ({ file, seconds }))
    .sort((a, b) => b.seconds - a.seconds);
  return result;
}

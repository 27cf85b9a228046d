/** scripts/tools.sh as far as it goes without a network, and the test runner's own counting. */
import { afterAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { tally } from "../scripts/junit.ts";
import { processesMentioning } from "../scripts/leftovers.ts";
import { wordsOfFailures } from "../scripts/suite.ts";

const ROOT = dirname(import.meta.dir);
const folder = mkdtempSync(join(tmpdir(), "kiki-test-tools-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

// What the script calls, apt left out: with it missing, nothing can reach for the network.
const UTILITIES = "sh awk cat chmod dirname find flock grep ln mkdir mktemp mv paste rm sed tr";

interface Checkout {
  root: string;
  bin: string;
  run: () => { code: number; out: string; err: string };
}

/** A checkout with tools.sh alone, on a PATH with just the given tool versions. */
function checkout(name: string, versions: Record<string, string>): Checkout {
  const root = join(folder, name);
  const bin = join(root, "path");
  mkdirSync(join(root, "scripts"), { recursive: true });
  mkdirSync(bin);
  copyFileSync(join(ROOT, "scripts/tools.sh"), join(root, "scripts/tools.sh"));
  for (const utility of UTILITIES.split(" ")) {
    const real = Bun.which(utility);
    if (real !== null) symlinkSync(real, join(bin, utility));
  }
  for (const [tool, version] of Object.entries(versions)) fakeTool(bin, tool, version);
  return {
    root,
    bin,
    run: () => {
      const result = Bun.spawnSync(["sh", join(root, "scripts/tools.sh")], {
        cwd: folder,
        env: { PATH: bin },
      });
      return {
        code: result.exitCode,
        out: result.stdout.toString(),
        err: result.stderr.toString().trim(),
      };
    },
  };
}

function fakeTool(bin: string, tool: string, version: string): void {
  writeFileSync(join(bin, tool), `#!/bin/sh\necho "${version}"\n`);
  chmodSync(join(bin, tool), 0o755);
}

describe("tools.sh", () => {
  test("tools.sh: everything on PATH new enough → says so, installs nothing", () => {
    const { run, root, bin } = checkout("enough", {
      jj: "jj 0.46.0",
      git: "git version 2.42.1",
      tmux: "tmux 3.3a",
    });
    const { code, out, err } = run();
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out.trim().split("\n")).toEqual([
      `jj   0.46.0   from PATH  ${bin}/jj`,
      `git  2.42.1   from PATH  ${bin}/git`,
      `tmux 3.3a     from PATH  ${bin}/tmux`,
    ]);
    expect(existsSync(join(root, ".tools"))).toBe(false);
  });

  test.each([
    ["jj too old", { jj: "jj 0.45.9" }, "jj >= 0.46 is needed (0.45.9 on PATH)"],
    ["git too old", { git: "git version 2.39.5" }, "git >= 2.42 is needed (2.39.5 on PATH)"],
    ["tmux too old", { tmux: "tmux 3.1c" }, "tmux >= 3.2 is needed (3.1c on PATH)"],
    ["jj that does not run", { jj: "" }, "jj >= 0.46 is needed (a broken one on PATH)"],
  ])("tools.sh: %s and not on Debian → one line with what to do", (name, given, expected) => {
    const { run } = checkout(name.replaceAll(" ", "-"), {
      jj: "jj 1.0.0",
      git: "git version 2.53.0",
      tmux: "tmux next-3.6",
      ...given,
    });
    const { code, out, err } = run();
    expect({ code, out }).toEqual({ code: 1, out: "" });
    expect(err.split("\n").at(-1)).toBe(
      `tools.sh: ${expected} and can only be fetched on Debian; install it and put it on PATH`,
    );
  });

  test("tools.sh: a tool in .tools that still works → used, although PATH has an old one", () => {
    const { run, root } = checkout("kept", {
      jj: "jj 0.40.0",
      git: "git version 2.53.0",
      tmux: "tmux 3.5a",
    });
    mkdirSync(join(root, ".tools/bin"), { recursive: true });
    fakeTool(join(root, ".tools/bin"), "jj", "jj 0.47.0");
    const { code, out } = run();
    expect(code).toBe(0);
    expect(out.split("\n")[0]).toBe(`jj   0.47.0   .tools     ${root}/.tools/bin/jj`);
  });
});

describe("test runner", () => {
  const XML = `<testsuites tests="4"><testsuite name="tests/a.test.ts">
    <testcase name="a: x → &lt;y&gt;" classname="" file="tests/a.test.ts" time="0.5" />
    <testcase name="skipped" classname="" file="tests/a.test.ts"><skipped /></testcase>
    <testcase name="fails" classname="g" file="tests/a.test.ts" time="0.25">
      <failure type="Error" message="no">at &lt;testcase name=&quot;no&quot;</failure>
    </testcase></testsuite></testsuites>`;

  test("tally: passed, skipped and failed cases → counted, failures named", () => {
    expect(tally(XML, ["tests/a.test.ts"])).toEqual({
      passed: 1,
      skipped: 1,
      failures: ["tests/a.test.ts: g > fails"],
      slowest: [{ file: "tests/a.test.ts", seconds: 0.75 }],
    });
  });

  test("tally: a file without a case → failed, for bun reports none when it does not load", () => {
    expect(tally("", ["tests/b.test.ts"]).failures).toEqual([
      "tests/b.test.ts: reported no test (did it load?)",
    ]);
  });

  test("leftovers: a process working in the folder → found; ended → gone", async () => {
    const marked = join(folder, "marked");
    mkdirSync(marked);
    const child = Bun.spawn(["sleep", "600"], { cwd: marked, env: { HERE: marked } });
    // The child appears in /proc under its own name only after it has replaced itself.
    for (let i = 0; i < 100 && processesMentioning(marked).length === 0; i++) await Bun.sleep(20);
    expect(processesMentioning(marked).map(({ pid }) => pid)).toEqual([child.pid]);
    child.kill("SIGKILL");
    await child.exited;
    expect(processesMentioning(marked)).toEqual([]);
  });
});

test("test report: two tests fail among others → their own words once more, nobody else's", () => {
  const report = [
    "tests/a.test.ts:",
    "said by one that passes",
    "(pass) a [1ms]",
    "error: expected 1",
    "(fail) b [1ms]",
    "said by one that passes",
    "(pass) c [1ms]",
    "tests/b.test.ts:",
    ...Array.from({ length: 200 }, (_, n) => `line ${n}`),
    "(fail) d [1ms]",
    "",
  ].join("\n");
  const words = wordsOfFailures(report);
  expect(words).not.toContain("passes");
  expect(words).toStartWith("error: expected 1\n(fail) b [1ms]\n\n…\n");
  expect(words).toEndWith("line 199\n(fail) d [1ms]");
  expect(words.split("\n").length).toBeLessThan(100);
  expect(wordsOfFailures("(pass) a [1ms]\n")).toBe("");
});

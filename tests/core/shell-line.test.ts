/** Commands a person is asked to type: what a shell makes of them, and that a terminal shows them as they are. */
import { expect, test } from "bun:test";
import { renderDiagnoses } from "../../src/core/render/repair.ts";
import { printable } from "../../src/core/render/width.ts";
import { shellLine, shellWord, threadWord } from "../../src/core/shell-line.ts";

const WORDS = [
  "plain",
  "two words",
  "it's",
  "",
  "-x",
  "日本",
  "red\u001b[31m7",
  "a\nb\tc\\'d'",
  "\u009bx\u202ey",
];

test("shellWord: any word → nothing for a terminal to act on, and bash reads the very word", () => {
  const line = shellLine(WORDS);
  expect(printable(line)).toBe(line);
  const { stdout } = Bun.spawnSync(["bash", "-c", `printf '%s\\0' ${line}`]);
  expect(stdout.toString().split("\0").slice(0, -1)).toEqual(WORDS);
});

test("threadWord: a name that begins with a dash → behind --, where it is no flag; in kk repair as well", () => {
  expect([threadWord("-x y"), threadWord("x"), shellWord("-x")]).toEqual(["-- '-x y'", "x", "-x"]);
  const diagnosis = {
    name: "-x",
    lifecycle: "CreateFailed",
    needsRepair: true,
    authority: [],
    observed: [],
    notes: [],
    plans: [{ id: "0123456789ab", kind: "creation-cleanup", title: "", changes: [] }],
  };
  const line = renderDiagnoses([diagnosis], { colour: false }).split("\n").at(-1);
  expect(line).toBe("  kk repair --apply 0123456789ab -- -x");
});

/** Names of plans a person is looking at: kept for them, and given back. */
import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { AGREED, inputFor, Rig } from "./rig.ts";

const folder = tempDir("creation-names");
let rig: Rig;
beforeEach(() => {
  rig = new Rig(folder);
});
afterEach(() => rig.close());
afterAll(removeTempDirs);

const nameless = inputFor(null, { prompt: null });

/** A `kk new` that shows its plan and waits for an answer. */
async function asking(input = nameless): Promise<{ pid: number; digest: string; name: string }> {
  const { pid } = rig.processes.start("kk new");
  const { digest, names } = await rig.creation.plan(input, pid);
  return { pid, digest, name: names.name };
}

test("names: two nameless plans at the same moment → two names, and both are made exactly as shown", async () => {
  const [one, two] = await Promise.all([asking(), asking()]);
  expect(one.name).toMatch(/^unnamed-[0-9a-f]{6}$/);
  expect(two.name).toMatch(/^unnamed-[0-9a-f]{6}$/);
  expect(two.name).not.toBe(one.name);
  const second = await rig.creation.create({ ...nameless, digest: two.digest }, AGREED);
  const first = await rig.creation.create({ ...nameless, digest: one.digest }, AGREED);
  expect([first.name, second.name]).toEqual([one.name, two.name]);
});

test("names: the same name and the same prompt asked for at once → -2 in the second plan, which says so", async () => {
  const first = await asking(inputFor("parser"));
  const { text, names, digest } = await rig.creation.plan(inputFor("parser"), first.pid);
  expect([names.name, names.slug]).toEqual(["parser-2", "parser-2"]);
  expect(text).toContain('"parser" is taken, so this one is "parser-2"');
  const made = [first.digest, digest].map((d) =>
    rig.creation.create({ ...inputFor("parser"), digest: d }, AGREED),
  );
  expect((await Promise.all(made)).map((m) => m.name)).toEqual(["parser", "parser-2"]);
});

test("names: whoever asked has ended without an answer → the name is free at once", async () => {
  const { pid } = await asking(inputFor("parser"));
  rig.processes.end(pid);
  expect((await asking(inputFor("parser"))).name).toBe("parser");
});

test("names: nobody answers for two minutes → free again; the late answer still counts while it is", async () => {
  const late = await asking(inputFor("parser"));
  rig.clock.advance(120_000);
  expect(
    (await rig.creation.create({ ...inputFor("parser"), digest: late.digest }, AGREED)).name,
  ).toBe("parser");
});

test("names: refused because the base moved → given back, so that the next plan shows the same name", async () => {
  const { digest } = await asking(inputFor("parser"));
  rig.jj.amend("default", { "a.txt": "1" });
  const refused = rig.creation.create({ ...inputFor("parser"), digest }, AGREED);
  expect(await refused.catch((error: unknown) => error)).toMatchObject({ code: "plan-changed" });
  expect((await asking(inputFor("parser"))).name).toBe("parser");
});

test("names: a plan without a process that shows it → keeps nothing", async () => {
  await rig.creation.plan(inputFor("parser"));
  expect((await rig.creation.plan(inputFor("parser"))).names.name).toBe("parser");
});

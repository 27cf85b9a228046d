/**
 * What must not count as an edit that no hooked call explains: files that kiki itself brought up to date, what jj recorded at
 * the end of a turn, what jj ignores. Real jj, real database; the agent is one whose calls run one at a time.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, renameSync, utimesSync, writeFileSync } from "node:fs";
import { removeTempDirs } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";
import { refused, serialFamily, type SerialFamily } from "./serial-rig.ts";

setDefaultTimeout(120_000);
const families: SerialFamily[] = [];
afterAll(async () => {
  for (const f of families) await f.rig.close();
  removeTempDirs();
});

async function family(): Promise<SerialFamily> {
  const f = await serialFamily();
  families.push(f);
  return f;
}

/** Beyond the coarseness of file times: what comes now is after the call. */
const apart = (): Promise<void> => Bun.sleep(60);

const edits = (f: SerialFamily, path: string, text: string) =>
  f.agent.call({
    run: () => {
      writeFileSync(`${f.child.path}/${path}`, text);
      return "";
    },
  });

/** The next call is refused with the newest intent's payload, and the boundary counts as before. */
async function expectTold(f: SerialFamily, n: number): Promise<void> {
  const call = await f.agent.call();
  expect(f.events("boundary_lost")).toEqual([]);
  expect(call.output).toBe(refused(f.intent(n).payload!));
  expect(f.soft()).toBe(true);
  await f.agent.call();
  expect(f.intent(n).state).toBe("Acknowledged");
}

test("files that kiki brought up to date while a call was held, clean and with an agent's edits in them → told softly at the next move", async () => {
  const f = await family();
  await f.agent.call();
  await apart();
  await f.amend("two\n");
  await expectTold(f, 0);
  await edits(f, "own.txt", "by a hooked call\n");
  await apart();
  // The edits are recorded and moved at this boundary, long after their call.
  await f.amend("three\n");
  await expectTold(f, 1);
  expect([f.file("own.txt"), f.file("parser.txt")]).toEqual(["by a hooked call\n", "three\n"]);
  await apart();
  await f.amend("four\n");
  await expectTold(f, 2);
});

test("edits recorded by kiki when the turn ends → told softly at the next move", async () => {
  const f = await family();
  await edits(f, "own.txt", "by a hooked call\n");
  await f.agent.stop();
  const recorded = () =>
    f.rig.repo.tryJj(
      `file show --ignore-working-copy -r "${f.child.workspace}"@ own.txt`.split(" "),
    );
  await waitFor(async () => (await recorded()).code === 0, 60_000, "the turn's snapshot");
  await apart();
  await f.amend("two\n");
  await f.agent.prompt("go on");
  await expectTold(f, 0);
});

test("an editor's files that jj ignores, written and renamed; a tracked file touched without a change → nothing", async () => {
  const f = await family();
  await f.agent.call();
  await apart();
  // The repository's .gitignore has *.log.
  const swap = `${f.child.path}/.own.swp.log`;
  f.agent.unhooked(() => {
    writeFileSync(`${swap}.new.log`, "swap");
    renameSync(`${swap}.new.log`, swap);
    utimesSync(`${f.child.path}/parser.txt`, new Date(), new Date());
  });
  await f.amend("two\n");
  await expectTold(f, 0);
  expect(existsSync(swap)).toBe(true);
});

test("a swap file that jj does not ignore → counts: nobody can tell it from a tool's", async () => {
  const f = await family();
  await f.agent.call();
  await apart();
  f.agent.unhooked(() => writeFileSync(`${f.child.path}/.own.txt.swp`, "swap"));
  await f.amend("two\n");
  expect((await f.agent.call()).output).toContain("restarted by kiki");
  expect(f.events("boundary_lost")).toMatchObject([{ why: expect.stringContaining("swp") }]);
});

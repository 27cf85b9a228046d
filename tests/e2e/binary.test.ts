/** The compiled binary by itself: copied alone into an empty folder, called through its links. */
import { copyFileSync, mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { runAs } from "../support/jj-repo.ts";
import { onTerminal } from "../support/person.ts";
import { makeWorld, type World } from "../support/world.ts";

setDefaultTimeout(60_000);
let w: World | undefined;
afterAll(async () => w?.close());

test("dist/kiki alone in an empty folder → version, init and ls --json work through the links", async () => {
  w = await makeWorld();
  const bin = join(w.dir, "bin");
  mkdirSync(bin);
  copyFileSync(join(import.meta.dir, "../../dist/kiki"), join(bin, "kiki"));
  for (const name of ["kk", "kkd", "kk-hook"]) symlinkSync("kiki", join(bin, name));
  const env = { ...w.env, PATH: `${bin}:${w.env["PATH"]}` };
  const version = await runAs(env, [join(bin, "kk"), "--version"], w.dir);
  expect(version.stdout).toMatch(/^kiki \d+\.\d+\.\d+ /);
  expect((await onTerminal(env, [join(bin, "kk"), "init"], "y", w.repo.root)).code).toBe(0);
  const ls = await runAs(env, [join(bin, "kk"), "ls", "--json"], w.repo.root);
  expect(JSON.parse(ls.stdout)).toEqual({ threads: [] });
});

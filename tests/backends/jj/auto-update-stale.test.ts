/** Where jj's own configuration lets any command update a stale workspace. */
import { afterAll, expect, test } from "bun:test";
import { createJj } from "../../../src/backends/jj/backend.ts";
import { makeRepo, type TestRepo } from "../../support/jj-repo.ts";
import { removeTempDirs } from "../../support/temp.ts";

afterAll(removeTempDirs);

const on = (repo: TestRepo) => createJj({ env: repo.env }).autoUpdateStale(repo.root);
const set = (repo: TestRepo, level: string, value: string) =>
  repo.jj(["config", "set", level, "snapshot.auto-update-stale", value]);

test("auto-update-stale: jj's own default, or turned off → null", async () => {
  const repo = await makeRepo({ colocated: false });
  expect(await on(repo)).toBeNull();
  await set(repo, "--user", "true");
  await set(repo, "--repo", "false");
  expect(await on(repo)).toBeNull();
});

test.each(["--user", "--repo", "--workspace"])(
  "auto-update-stale: on at level %s → its file",
  async (level) => {
    const repo = await makeRepo({ colocated: false });
    await set(repo, level, "true");
    const file = (await on(repo))!;
    expect(await Bun.file(file).text()).toContain("auto-update-stale = true");
  },
);

test("auto-update-stale: folder is no repository → error", async () => {
  const repo = await makeRepo({ colocated: false });
  const elsewhere = createJj({ env: repo.env }).autoUpdateStale(repo.dir);
  expect(elsewhere).rejects.toThrow("read its settings");
});

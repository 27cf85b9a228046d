/** A machine without a file watch left: the daemon starts, says so, and finds jj's operations all the same. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { openRepoDb } from "../../src/store/open.ts";
import { frontier } from "../../src/store/ops.ts";
import { runAs } from "../support/jj-repo.ts";
import { onTerminal } from "../support/person.ts";
import { waitFor } from "../support/wait.ts";
import { makeWorld, type World } from "../support/world.ts";

setDefaultTimeout(120_000);
let world: World | null = null;
afterAll(() => world?.close());

/** Limits of a user namespace count in it alone: the machine's own are not touched. */
const NAMESPACE = ["unshare", "--user", "--map-root-user", "sh", "-c"];
const possible =
  Bun.spawnSync([...NAMESPACE, "echo 0 > /proc/sys/user/max_inotify_instances"]).exitCode === 0;

test.skipIf(!possible)(
  "no inotify instance left → the daemon polls, kk doctor says why, a person's operation is read within seconds",
  async () => {
    const w = (world = await makeWorld());
    const command = (...kk: string[]): string[] => [
      ...NAMESPACE,
      `echo 0 > /proc/sys/user/max_inotify_instances; exec kk ${kk.join(" ")}`,
    ];
    const inside = (...kk: string[]) => runAs(w.env, command(...kk), w.repo.root);
    // The first command starts the daemon, in here.
    const init = await onTerminal(w.env, command("init"), "y", w.repo.root);
    expect(init.screen).toContain("registered");
    const doctor = await inside("doctor");
    expect(doctor.stdout).toMatch(/repo .*shop\s+polled \(.*max_user_instances/);

    // jj's own setting that would act behind kiki's back.
    expect(doctor.stdout).not.toContain("auto-update-stale");
    await w.repo.jj(["config", "set", "--repo", "snapshot.auto-update-stale", "true"]);
    const warned = (await inside("doctor")).stdout;
    expect(warned).toMatch(/! jj of .*shop +snapshot.auto-update-stale is on in .*\n {2}→ set /);

    const [repo] = (await w.kkJson<{ repos: { repoId: string }[] }>(["repo", "ls"])).repos;
    const db = openRepoDb(join(w.stateDir, "repos", repo!.repoId, "state.db"));
    await w.repo.jj(["describe", "-m", "by a person"]);
    const head = await w.repo.head();
    await waitFor(() => frontier(db).join() === head, 20_000, "the operation read by polling");
    db.close();
  },
);

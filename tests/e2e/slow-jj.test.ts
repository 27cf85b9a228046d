/** The whole binary while jj takes half a minute for everything: the agent's tools run, and a person is told why. */
import { chmodSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, setDefaultTimeout } from "bun:test";
import { bash, say, touch, wait } from "../support/scenario.ts";
import { tempDir } from "../support/temp.ts";
import { thorough } from "../support/thorough.ts";
import { waitFor } from "../support/wait.ts";
import { makeWorld, type World } from "../support/world.ts";

setDefaultTimeout(180_000);
let world: World | null = null;
afterAll(() => world?.close());

thorough(
  "jj takes half a minute, an operation is to be read → the agent's call runs meanwhile, kk doctor and kk daemon status say degraded; over → they do not",
  async () => {
    const dir = tempDir("slow-jj");
    const bin = join(dir, "slow-bin");
    mkdirSync(bin, { recursive: true });
    const real = Bun.which("jj")!;
    writeFileSync(
      join(bin, "jj"),
      // Of a person's `jj --version` nothing is to be learned here.
      `#!/bin/sh\nif [ -f '${bin}/slow' ] && [ "$1" != --version ]; then echo x >>'${bin}/kept'; sleep 30; echo x >>'${bin}/answered'; fi\nexec '${real}' "$@"\n`,
    );
    chmodSync(join(bin, "jj"), 0o755);
    const w = (world = await makeWorld({ dir, path: [bin] }));
    await w.register();
    const prompt = w.scenario("works", {
      responses: [
        [bash("c1", "true"), touch(w.signal("begun")), wait(w.signal("go"))],
        [bash("c2", `touch '${w.signal("ran")}'`)],
        [say("done")],
      ],
    });
    await w.newThread(["works", "-m", prompt]);

    await waitFor(() => existsSync(w.signal("begun")), 20_000, "the agent at work");
    writeFileSync(join(bin, "slow"), "");
    // The person's own jj is not slow.
    await w.repo.jj(["describe", "-m", "by a person"]);
    await waitFor(() => existsSync(join(bin, "kept")), 20_000, "kiki asks jj");
    w.raise("go");
    await waitFor(() => existsSync(w.signal("ran")), 20_000, "the call of the next batch has run");
    expect(existsSync(join(bin, "answered"))).toBe(false);

    const watching = async (): Promise<string> => (await w.kk(["daemon", "status"])).stdout;
    await waitFor(
      async () => (await watching()).includes("; degraded: jj has not shown"),
      20_000,
      "status",
    );
    const doctor = await w.kk(["doctor"]);
    expect(doctor.stdout).toMatch(/! repo .*shop +degraded: jj .*\n {2}→ run jj op log in /);
    expect(doctor.code).toBe(1);

    rmSync(join(bin, "slow"));
    await waitFor(
      async () => !(await watching()).includes("degraded"),
      60_000,
      "no longer degraded",
    );
    expect((await w.kk(["doctor"])).stdout).toMatch(/✓ repo .*shop/);
  },
);

/**
 * A process that the agent has left running goes on appending numbered lines to files of its workspace while the parent moves
 * again and again: the whole binary, real jj and tmux, real signals. `KIKI_TEST_ROUNDS=200` moves the parent that often.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, setDefaultTimeout } from "bun:test";
import {
  amend,
  commitOf,
  expectAtRest,
  family,
  homeOf,
  intents,
  onDisk,
  reached,
  story,
  type Family,
} from "../../support/family.ts";
import { bash, read, touch, wait } from "../../support/scenario.ts";
import { thorough } from "../../support/thorough.ts";
import { waitFor } from "../../support/wait.ts";
import { initialised, type World } from "../../support/world.ts";

const ROUNDS = Number(process.env["KIKI_TEST_ROUNDS"] ?? 2);
const ROUND_MS = 90_000;
setDefaultTimeout(ROUND_MS * (ROUNDS + 2));
let w: World | null = null;
afterAll(() => w?.close());

/** The parent's part of the file both change: the first line. The rest keeps the writer's lines away from it. */
const shared = (round: number): string => `parent ${round}\n1\n2\n3\n4\n5\n6\n7\n`;
/** Tracked by jj from the parent on; new in the workspace; ignored. */
const FILES = ["shared.txt", "own.txt", "build/trace.txt"] as const;

/** Lines the process says it has written, each said after it was. */
function journal(of: World): string[] {
  return readFileSync(join(of.dir, "journal"), "utf8").split("\n").slice(0, -1);
}

/** Every line of this path in the workspace, in bundles that a payload names, and in commits that a payload names. */
async function everywhere(f: Family, path: string, known: Set<string>): Promise<Set<string>> {
  const lines = new Set(onDisk(f.child, path)!.split("\n"));
  const missing = [...known].filter((line) => !lines.has(line));
  if (missing.length === 0) return lines;
  for (const { payload, bundle } of intents(f, f.child)) {
    if (bundle === null || payload?.includes(bundle) !== true) continue;
    for (const folder of readdirSync(bundle).filter((name) => name.startsWith("files"))) {
      const copy = join(bundle, folder, path);
      if (statSync(copy, { throwIfNoEntry: false }) === undefined) continue;
      for (const line of readFileSync(copy, "utf8").split("\n")) lines.add(line);
    }
  }
  return lines;
}

thorough(
  `a process of the agent writes on while its parent moves ${ROUNDS} times → no line lost, every move told, it goes on afterwards`,
  async () => {
    w = await initialised({
      colocated: false,
      files: { "base.txt": "base\n", ".gitignore": "build/\n" },
    });
    const world = w;
    const stop = world.signal("stop");
    const journalFile = join(world.dir, "journal");
    const writer = `mkdir -p build
    nohup setsid sh -c 'echo $$ >"${world.dir}/writer.pid"; i=0; while [ ! -e "${stop}" ]; do i=$((i+1))
      for f in ${FILES.join(" ")}; do echo "line $i" >>$f; done
      echo "line $i" >>"${journalFile}"; sleep 0.02; done' </dev/null >/dev/null 2>&1 &
    while [ ! -s "${journalFile}" ]; do sleep 0.02; done`;
    const f = await family(homeOf(world, world.repo), "writer", {
      files: { "shared.txt": shared(0) },
      before: [[bash("c1", writer)]],
      // It goes on calling a tool; the parent's moves meet whatever boundary comes.
      after: [
        [read("a0", "base.txt")],
        {
          while: { not: { file_exists: world.signal("enough") } },
          do: [
            {
              blocks: [
                wait(world.signal("tick")),
                { ...read("", "base.txt"), id: undefined, delay_ms: 60 },
              ],
            },
          ],
          max: ROUNDS * 1_000,
        },
        [touch(world.signal("over")), read("z0", "base.txt")],
      ],
    });
    world.raise("tick");
    f.go();
    const began = performance.now();
    for (let round = 1; round <= ROUNDS; round += 1) {
      await amend(f, { "shared.txt": shared(round) });
      const at = await commitOf(f, f.parent);
      await waitFor(
        () => {
          const rows = intents(f, f.child).filter((row) => row.state !== "Superseded");
          return rows.at(-1)?.to === at && rows.every((row) => row.state === "Acknowledged");
        },
        ROUND_MS,
        () => `round ${round} told\n${story(f)}`,
      );
      expect(onDisk(f.child, "shared.txt")!.split("\n")[0]).toBe(`parent ${round}`);
      // It goes on.
      const said = journal(world).length;
      await waitFor(() => journal(world).length > said, 30_000, "more lines");
    }
    const seconds = (performance.now() - began) / 1_000;
    world.raise("enough");
    world.raise("stop");
    await reached(f, "writer-done");
    const pid = Number(readFileSync(join(world.dir, "writer.pid"), "utf8"));
    await world.gone(pid);
    const written = journal(world);
    const lost: string[] = [];
    let elsewhere = 0;
    for (const path of FILES) {
      const visible = new Set(onDisk(f.child, path)!.split("\n"));
      elsewhere += written.filter((line) => !visible.has(line)).length;
      const found = await everywhere(f, path, new Set(written));
      lost.push(...written.filter((line) => !found.has(line)).map((line) => `${path}: ${line}`));
    }
    console.info(
      `${ROUNDS} rounds, ${written.length} lines in each of ${FILES.length} files, ${elsewhere} only in bundles, ${lost.length} lost, ${seconds.toFixed(1)} s`,
    );
    expect(lost).toEqual([]);
    expect(intents(f, f.child).every((row) => row.redeliveries === 0)).toBe(true);
    await expectAtRest(f, f.child);
  },
);

/**
 * The probe against jj on a generated corpus: every edit alone on every kind of workspace, and drawn mixtures of them.
 * jj is asked afterwards, on the same files: whenever its own snapshot would record something the probe must have said
 * dirty, or that it does not know; and what it called dirty jj must record. Whatever changed must also change the
 * fingerprint, which is what the look right before a mutation compares. `KIKI_TEST_CORPUS=<n>` draws n mixtures more;
 * `KIKI_TEST_TABLE=1` prints the table.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { rmSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { createJj } from "../../../src/backends/jj/backend.ts";
import type { WorkspaceProbe } from "../../../src/ports/jj.ts";
import { makeRepo, personIn, runAs, type TestRepo } from "../../support/jj-repo.ts";
import { randomOf, testSeed } from "../../support/random.ts";
import { removeTempDirs, tempDir } from "../../support/temp.ts";
import { copyTree } from "../../support/tree.ts";

const TIMEOUT_MS = 300_000;
/** The default suite draws the same mixtures each time. */
const USUAL_SEED = 20_261_202;
const MIXTURES = 16;

interface Scene extends TestRepo {
  child: string;
}

/** What somebody may do to the files of the child; sh, run in its folder. */
const EDITS = {
  nothing: "",
  modified: "echo q >> base.txt",
  "modified where the parent changed it": "echo mine >> p.txt",
  "same size": "printf 'LINE 1\\nline 2\\nline 3\\n' > base.txt",
  "same size and time":
    "touch -r base.txt ../t; printf 'LINE 1\\nline 2\\nline 3\\n' > base.txt; touch -r ../t base.txt",
  touched: "touch base.txt p.txt",
  new: "echo 1 > new",
  "new in new folders": "mkdir -p q/w; echo 1 > q/w/e",
  deleted: "rm d/g",
  "deleted as the parent did": "rm gone.txt",
  renamed: "mv d/g d/moved",
  "exec bit": "chmod +x base.txt",
  "symlink retargeted": "ln -sfn p.txt link",
  "file became a symlink": "rm d/g; ln -s x d/g",
  "file became a folder": "rm d/g; mkdir d/g; echo 1 > d/g/in",
  ignored: "echo 1 > a.log; mkdir -p build; echo 1 > build/x",
  "newly ignored, then modified": "echo base.txt >> .gitignore; echo q >> base.txt",
  "ignored, in the parent's way": "echo 1 > from-parent.log",
  "new, in the parent's way": "echo 1 > from-parent.txt",
  "folder in the parent's way": "mkdir -p from-parent.txt; echo 1 > from-parent.txt/x.log",
  huge: "head -c 1048577 /dev/zero > huge",
  "name that is not UTF-8": 'printf 1 > "$(printf "b\\377")"',
  "nested repository": "git init -q nest; echo 1 > nest/f",
  fifo: "mkfifo ff",
  "CRLF line ends": "printf 'line 1\\r\\nline 2\\r\\nline 3\\r\\n' > base.txt",
  "names with newline and umlaut": "printf 1 > 'a\nb'; printf 1 > 'ö ö'",
} as const;
type Edit = keyof typeof EDITS;

/** Nothing is known under these, and it is said. */
const UNKNOWN = {
  sparse: "jj sparse set --quiet --clear --add d; echo 1 > d/new",
  "auto-track off":
    'printf "[snapshot]\\nauto-track = \\"none()\\"\\n" >> "$JJ_CONFIG"; echo 1 > new',
  "line ends converted":
    'printf "[working-copy]\\neol-conversion = \\"input\\"\\n" >> "$JJ_CONFIG"; printf "line 1\\r\\n" > base.txt',
} as const;

const WORLDS = [
  "fresh",
  "stale",
  "conflicted",
  "stale conflicted",
  "colocated",
  "stale colocated",
] as const;
type World = (typeof WORLDS)[number];
/** Only where git has a HEAD of its own. */
const GIT_COMMIT = "git add -A; git commit -q --allow-empty -m own";

interface Situation {
  world: World;
  name: string;
  script: string;
}

const templates = new Map<World, { dir: string; fingerprint: string }>();
const rows: string[] = [];

beforeAll(async () => {
  for (const world of WORLDS) {
    const dir = await prepare(world);
    templates.set(world, { dir, fingerprint: (await probe(sceneIn(dir))).fingerprint });
  }
}, TIMEOUT_MS);

afterAll(() => {
  removeTempDirs();
  if (process.env["KIKI_TEST_TABLE"] === undefined) return;
  const head = ["| workspace | done to the files | probe | jj |", "| --- | --- | --- | --- |"];
  process.stdout.write(`${[...head, ...rows].join("\n")}\n`);
});

async function prepare(world: World): Promise<string> {
  const colocated = world.endsWith("colocated");
  const repo = await makeRepo({ colocated });
  repo.write("p.txt", "p1\n");
  repo.write("gone.txt", "the parent deletes it\n");
  await repo.jj(["describe", "--quiet", "-m", "parent"]);
  const scene = sceneIn(repo.dir);
  const where = colocated ? "--colocate" : "--no-colocate";
  const add = ["workspace", "add", "--quiet", where, "--name", "child", "-r", "@", "-m", "child"];
  await repo.jj([...add, scene.child]);
  await sh(scene, "mkdir d; echo y > d/g; ln -s base.txt link");
  if (world.endsWith("conflicted")) await sh(scene, "echo child > p.txt");
  await scene.jj(["util", "snapshot", "--quiet"], scene.child);
  if (world.endsWith("conflicted")) {
    scene.write("p.txt", "parent\n");
    await scene.jj(["util", "snapshot", "--quiet"]);
    await scene.jj(["workspace", "update-stale", "--quiet"], scene.child);
  }
  if (world.startsWith("stale")) {
    scene.write("p.txt", "p1\np2\n");
    scene.write("from-parent.txt", "n\n");
    scene.write("from-parent.log", "n\n");
    await scene.jj(["file", "track", "--quiet", "--include-ignored", "from-parent.log"]);
    scene.remove("gone.txt");
    await scene.jj(["util", "snapshot", "--quiet"]);
  }
  // jj trusts a file's time only when it is older than its record.
  const later = new Date(Date.now() + 50);
  utimesSync(join(scene.child, ".jj/working_copy/tree_state"), later, later);
  return repo.dir;
}

function sceneIn(dir: string): Scene {
  return { ...personIn(dir, join(dir, "repo")), child: join(dir, "child") };
}

async function sh(scene: Scene, script: string): Promise<void> {
  const result = await runAs(scene.env, ["sh", "-ec", script], scene.child);
  if (result.code !== 0) throw new Error(`${script}: ${result.stderr}`);
}

async function probe(scene: Scene): Promise<WorkspaceProbe> {
  const jj = createJj({ env: scene.env });
  const repo = jj.open((await jj.locate(scene.root))!, join(scene.dir, "neutral"));
  return repo.probe(scene.child, "child", (await repo.heads())[0]!);
}

/** Whether jj would record something: its own snapshot, on the very files. */
async function askJj(scene: Scene, answer: WorkspaceProbe, stale: boolean): Promise<boolean> {
  if (stale) await scene.jj(["workspace", "update-stale", "--quiet"], scene.child);
  const at = ["log", "--no-graph", "-r", "@", "-T", 'commit_id ++ " " ++ divergent'];
  const now = await scene.tryJj(at, scene.child);
  return now.code !== 0 || now.stdout !== `${answer.recordedCommit} false`;
}

async function play(
  s: Situation,
): Promise<{ answer: WorkspaceProbe; records: boolean; same: boolean }> {
  const template = templates.get(s.world)!;
  const dir = join(tempDir("corpus"), "copy");
  await copyTree(template.dir, dir);
  const scene = sceneIn(dir);
  if (s.script !== "") await sh(scene, s.script);
  const answer = await probe(scene);
  const records = await askJj(scene, answer, s.world.startsWith("stale"));
  rmSync(dir, { recursive: true });
  return { answer, records, same: answer.fingerprint === template.fingerprint };
}

/** null: as it must be. */
function judged(s: Situation, found: Awaited<ReturnType<typeof play>>): string | null {
  const { answer, records, same } = found;
  const says = `${s.world}, ${s.name}: probe ${answer.state} ${answer.changed.join()}, jj ${records ? "records" : "records nothing"}`;
  if (answer.state === "Unknown") return null;
  if (answer.state.endsWith("Clean") === records) return says;
  if (answer.state.startsWith("Stale") !== s.world.startsWith("stale")) return says;
  if (answer.state.endsWith("Dirty") && same && s.name !== "nothing")
    return `${says}; the fingerprint does not show it`;
  return null;
}

function corpus(): Situation[] {
  const all: Situation[] = [];
  const edits = Object.keys(EDITS) as Edit[];
  for (const world of ["fresh", "stale"] as const)
    for (const name of edits) all.push({ world, name, script: EDITS[name] });
  for (const world of ["fresh", "stale"] as const)
    for (const [name, script] of Object.entries(UNKNOWN))
      // jj changes the sparse patterns of fresh files only.
      if (world === "fresh" || name !== "sparse") all.push({ world, name, script });
  for (const world of ["conflicted", "stale conflicted"] as const) {
    for (const name of [
      "nothing",
      "touched",
      "modified where the parent changed it",
      "new",
    ] as const)
      all.push({ world, name, script: EDITS[name] });
  }
  for (const world of ["colocated", "stale colocated"] as const) {
    for (const name of ["nothing", "new", "modified"] as const)
      all.push({ world, name, script: EDITS[name] });
    all.push({ world, name: "git commit", script: `echo 1 > own; ${GIT_COMMIT}` });
    all.push({ world, name: "empty git commit", script: GIT_COMMIT });
  }
  return all;
}

function mixtures(count: number, seed: number): Situation[] {
  const random = randomOf(seed);
  const edits = (Object.keys(EDITS) as Edit[]).filter((name) => name !== "nothing");
  return Array.from({ length: count }, () => {
    const names = [
      ...new Set(Array.from({ length: 2 + random.below(3) }, () => random.pick(edits))),
    ];
    // One edit may take another's file away; what then fails is left out.
    const script = names.map((name) => `(${EDITS[name]}) || true`).join("\n");
    return { world: random.pick(WORLDS), name: names.join(" + "), script };
  });
}

const more = Number(process.env["KIKI_TEST_CORPUS"] ?? 0);
const seed = process.env["KIKI_TEST_SEED"] === undefined ? USUAL_SEED : testSeed();
const groups: Record<string, Situation[]> = {
  "each edit alone": corpus(),
  [`mixtures, seed ${seed}`]: mixtures(MIXTURES + more, seed),
};

describe("probe on a generated corpus", () => {
  test("corpus: at least sixty situations, every kind of workspace among them", () => {
    const all = Object.values(groups).flat();
    expect(all.length).toBeGreaterThanOrEqual(60);
    expect([...new Set(all.map((s) => s.world))].sort()).toEqual([...WORLDS].sort());
  });

  test("the parent takes an ignore rule away → its update lets jj record what was ignored, and touches none of it", async () => {
    const dir = join(tempDir("corpus"), "copy");
    await copyTree(templates.get("stale")!.dir, dir);
    const scene = sceneIn(dir);
    scene.write(".gitignore", "build/\n");
    await scene.jj(["util", "snapshot", "--quiet"]);
    scene.write("a.log", "the agent's\n", scene.child);
    const before = await probe(scene);
    expect([before.state, before.changed]).toEqual(["StaleClean", []]);
    await scene.jj(["workspace", "update-stale", "--quiet"], scene.child);
    expect(scene.read("a.log", scene.child)).toBe("the agent's\n");
    expect(scene.read("p.txt", scene.child)).toBe("p1\np2\n");
    expect(await scene.commit("divergent()")).toBe("");
    expect((await probe(scene)).state).toBe("FreshClean");
  }, 60_000);

  for (const [group, situations] of Object.entries(groups)) {
    test(
      `${group}: ${situations.length} situations → what jj's own snapshot says, or Unknown`,
      async () => {
        const wrong: string[] = [];
        for (const s of situations) {
          const found = await play(s);
          const { answer, records } = found;
          rows.push(
            `| ${s.world} | ${s.name} | ${answer.state} | ${records ? "records" : "nothing"} |`,
          );
          wrong.push(...[judged(s, found)].filter((line) => line !== null));
          const mayNotKnow = s.name in UNKNOWN || s.name.includes("not UTF-8");
          if (answer.state === "Unknown" && !mayNotKnow)
            wrong.push(`${s.world}, ${s.name}: Unknown (${answer.reason})`);
        }
        expect(wrong).toEqual([]);
      },
      TIMEOUT_MS,
    );
  }
});

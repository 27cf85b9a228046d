/** The look at a workspace before its files may change, against one walk that stats every file of the same tree. */
import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { makeRig, type Rig } from "../../tests/cascade/rig.ts";
import { removeTempDirs } from "../../tests/support/temp.ts";
import { floorRow, ratioRow, type Row } from "./stats.ts";

const FILES = 10_000;
const WARM_UP = 2;
const MAX_SAMPLES = 60;
const TARGET = { median: 3 };

export async function probeBench(options: { samples: number }): Promise<Row[]> {
  const rig = await makeRig();
  try {
    return await measure(rig, Math.min(options.samples, MAX_SAMPLES));
  } finally {
    await rig.close();
    removeTempDirs();
  }
}

async function measure(rig: Rig, samples: number): Promise<Row[]> {
  const thread = await rig.thread("probed");
  for (let n = 0; n < FILES; n += 1)
    rig.repo.write(`src/part-${n % 100}/file-${n}.ts`, `export const n = ${n};\n`, thread.path);
  await rig.repo.jj(["status"], thread.path);
  // Files as young as the snapshot itself have to be read again: jj and the probe trust a file's time only later.
  await Bun.sleep(50);
  rig.repo.write("last.txt", "last\n", thread.path);
  await rig.repo.jj(["status"], thread.path);
  const [op] = await rig.jj.heads();
  const [walks, probes]: [number[], number[]] = [[], []];
  for (let n = -WARM_UP; n < samples; n += 1) {
    const began = performance.now();
    const seen = walk(thread.path);
    const walked = performance.now();
    const { state, reason } = await rig.jj.probe(thread.path, thread.workspace, op!);
    const probed = performance.now();
    if (state !== "FreshClean" || seen < FILES)
      throw new Error(`${seen} files, the probe says ${state} ${reason ?? ""}`);
    if (n < 0) continue;
    walks.push(walked - began);
    probes.push(probed - walked);
  }
  const floor = floorRow(`stat walk of ${FILES} files`, walks);
  return [floor, ratioRow(`probe, FreshClean, ${FILES} files`, probes, floor, TARGET)];
}

/** Every file below, but for jj's own folder. */
function walk(folder: string): number {
  let files = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.name === ".jj" || entry.name === ".git") continue;
    const path = join(folder, entry.name);
    lstatSync(path);
    files += entry.isDirectory() ? walk(path) : 1;
  }
  return files;
}

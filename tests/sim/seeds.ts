/** Schedules that once failed, kept under fixtures/seeds as `sim-<name>.json`, and replayed for ever. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { EARLIER, type Config } from "./config.ts";

const FOLDER = join(import.meta.dir, "../../fixtures/seeds");

export interface KeptSeed {
  name: string;
  seed: number;
  config: Config;
  /** What it found, in one sentence. */
  found: string;
}

export function keptSeeds(): KeptSeed[] {
  return readdirSync(FOLDER)
    .filter((file) => file.startsWith("sim-") && file.endsWith(".json"))
    .sort()
    .map((file) => ({
      name: file.slice("sim-".length, -".json".length),
      ...read(join(FOLDER, file)),
    }));
}

function read(file: string): Omit<KeptSeed, "name"> {
  const kept = JSON.parse(readFileSync(file, "utf8")) as Omit<KeptSeed, "name">;
  return { ...kept, config: { ...EARLIER, ...kept.config } };
}

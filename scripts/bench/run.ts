/**
 * Benchmarks (performance chapter of the specification): every figure stands beside a floor measured in the same run.
 *
 *   bun run bench                 all of them
 *   bun run bench hook probe      some: hook, cascade, probe, catchup
 *   --n 500                       samples per row, default 200; slow ones take fewer
 *   --json                        the rows as JSON instead of a table
 *
 * Exit code 1 when a benchmark cannot be run; a missed target is reported, not an error: machines are noisy.
 */
import { parseArgs } from "node:util";
import { cascadeBench } from "./cascade.ts";
import { catchupBench } from "./catchup.ts";
import { hookBench } from "./hook.ts";
import { probeBench } from "./probe.ts";
import { table, type Row } from "./stats.ts";

export interface BenchOptions {
  samples: number;
  /** A toy server instead of the daemon, to measure the hook alone. */
  stub: boolean;
}

const BENCHES: Record<string, (options: BenchOptions) => Promise<Row[]>> = {
  hook: hookBench,
  cascade: cascadeBench,
  probe: probeBench,
  catchup: catchupBench,
};
const DEFAULT_SAMPLES = 200;

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      n: { type: "string", default: String(DEFAULT_SAMPLES) },
      json: { type: "boolean", default: false },
      stub: { type: "boolean", default: false },
    },
  });
  const samples = Number(values.n);
  if (!Number.isInteger(samples) || samples < 1)
    throw new Error(`--n ${values.n} is not a number of samples`);
  const names = positionals.length > 0 ? positionals : Object.keys(BENCHES);
  const results: Record<string, Row[]> = {};
  for (const name of names) {
    const bench = Object.hasOwn(BENCHES, name) ? BENCHES[name] : undefined;
    if (bench === undefined)
      throw new Error(`no benchmark ${name}; there are: ${Object.keys(BENCHES).join(" ")}`);
    results[name] = await bench({ samples, stub: values.stub });
    if (!values.json)
      console.log(`${name}, up to ${samples} samples each\n\n${table(results[name])}\n`);
  }
  if (values.json) console.log(JSON.stringify({ samples, results }, null, 2));
}

try {
  await main();
} catch (error) {
  console.error(`bench: ${error instanceof Error ? error.message : String(error)}`);
  process.exit(1);
}

/** The agents of a soak: what they do without end, what they say they have written, and what they saw meanwhile. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { IntentRow } from "../../support/family.ts";
import { moments, say, touch } from "../../support/scenario.ts";
import type { World } from "../../support/world.ts";

/** Enough for a night. */
const MOST_CALLS = 1_000_000;

/**
 * One tool call's work, in sh. It appends a numbered line to one of its files, says in its journal where once that is done,
 * and prints the first line of `shared.txt`, which is the parent's, as it was before and after.
 */
const WORK = `name=$1; at=$2
n=$(($(cat "$at/$name.n" 2>/dev/null || echo 0) + 1)); echo $n >"$at/$name.n"
before=$(head -n 1 shared.txt)
case $((n % 6)) in
  0) file=$3 ;;
  1) file=new/$name-$n.txt; mkdir -p new ;;
  2) file=build/$name.txt; mkdir -p build ;;
  3) [ -e "$at/calm" ] || jj describe --quiet -m "$name at $n" >/dev/null 2>&1
    file=own-$name.txt ;;
  *) file=own-$name.txt ;;
esac
echo "$name $n" >>"$file"
echo "$file $n" >>"$at/$name.journal"
sleep 0.05
echo "seen $n [$before] [$(head -n 1 shared.txt)]"
`;

export interface Worker {
  name: string;
  /** The file the parent changes as well, or another, for one whose parent is a worker itself. */
  appendsTo: string;
}

export function workScript(w: World): string {
  const file = join(w.dir, "work.sh");
  writeFileSync(file, WORK);
  return file;
}

/** What the scripted model says: another call, until the file `enough` is there. */
export function endless(w: World, script: string, worker: Worker): unknown[] {
  const command = `sh ${script} ${worker.name} ${w.dir} ${worker.appendsTo}`;
  const call = { type: "tool_use", name: "Bash", input: { command, description: "work" } };
  return [
    {
      while: { not: { file_exists: w.signal("enough") } },
      do: [[call]],
      max: MOST_CALLS,
    },
    [touch(w.signal(`${worker.name}-done`)), say("done")],
  ];
}

/** Lines that were written, by file. */
export function written(w: World, name: string): { file: string; line: string }[] {
  const journal = join(w.dir, `${name}.journal`);
  if (!existsSync(journal)) return [];
  const lines = readFileSync(journal, "utf8").split("\n").slice(0, -1);
  return lines.map((text) => {
    const [file = "", n = ""] = text.split(" ");
    return { file, line: `${name} ${n}` };
  });
}

/** Of them, those that are neither in the workspace nor in a bundle that a payload names. */
export function missing(
  w: World,
  name: string,
  workspace: string,
  intents: readonly IntentRow[],
): { lost: string[]; elsewhere: number; total: number } {
  const texts = new Map<string, Set<string>>();
  const linesOf = (path: string): Set<string> => {
    const found =
      texts.get(path) ?? new Set(existsSync(path) ? readFileSync(path, "utf8").split("\n") : []);
    texts.set(path, found);
    return found;
  };
  const bundles = intents.flatMap(({ bundle, payload, reason }) =>
    bundle !== null && existsSync(bundle) && `${payload}${reason}`.includes(bundle)
      ? readdirSync(bundle)
          .filter((folder) => folder.startsWith("files"))
          .map((folder) => join(bundle, folder))
      : [],
  );
  const all = written(w, name);
  const away = all.filter(({ file, line }) => !linesOf(join(workspace, file)).has(line));
  const lost = away.filter(
    ({ file, line }) => !bundles.some((folder) => linesOf(join(folder, file)).has(line)),
  );
  return {
    lost: lost.map(({ file, line }) => `${file}: ${line}`),
    elsewhere: away.length - lost.length,
    total: all.length,
  };
}

/** Calls during which the parent's line changed, and changes between two calls of which the agent was not told. */
export function untold(log: string): string[] {
  const found: string[] = [];
  let last: string | null = null;
  let told = false;
  for (const moment of moments(log)) {
    const text = JSON.stringify(moment);
    if (text.includes("[kiki]")) told = true;
    const seen = moment.kind === "result" ? /seen (\d+) \[(.*?)\] \[(.*?)\]/.exec(text) : null;
    if (seen === null) continue;
    const [, n, before, after] = seen;
    if (before !== after) found.push(`call ${n}: ${before} became ${after} while it ran`);
    if (last !== null && before !== last && !told)
      found.push(`call ${n}: ${last} became ${before}, and it was not told`);
    last = after ?? null;
    told = false;
  }
  return found;
}

/**
 * What a freeze does with each process of a thread: leave it alone, wait for its end, or stop it.
 *
 * A stopped holder of one of jj's or git's locks would block every jj command, kiki's own included, for as long as it
 * is stopped; so jj, git, what they wait for, and whoever has a lock open are waited for instead.
 */
import {
  depthOf,
  keyOf,
  processTree,
  ProcessTable,
  type ProcessFacts,
  type ProcessIdentity,
  type TreeQuery,
} from "./process-tree.ts";

export interface Keep {
  process: ProcessIdentity;
  /** Who else is left alone on its account. `family`: ancestors and descendants. */
  reach: "itself" | "ancestors" | "descendants" | "family";
  /** For the person: `the daemon`, `the command that asked`. */
  why: string;
}

export interface FreezeRules {
  keep: readonly Keep[];
  /** Absolute path of the incarnations' hook launchers: what runs through them answers for the barrier. */
  launchers: readonly string[];
}

/** What the decision needs to know about a member beyond the sample. */
export interface MemberFacts {
  /** null when it could not be read; an ended process has none. */
  argv: readonly string[] | null;
  /** It has a lock file of jj or git open. */
  holdsLock: boolean;
}

export interface Kept {
  process: ProcessFacts;
  why: string;
}

export interface FreezeRound {
  /** Parents before children; `depth` grows with the distance from the root of all processes. */
  stop: { process: ProcessFacts; depth: number }[];
  /** To be waited for. */
  drain: ProcessFacts[];
  kept: Kept[];
  unprovable: ProcessFacts[];
  missingRoots: ProcessIdentity[];
}

/** Sorts every member of the tree into one of `stop`, `drain` and `kept`. */
export function freezeRound(
  sample: readonly ProcessFacts[],
  query: TreeQuery,
  rules: FreezeRules,
  factsOf: (one: ProcessFacts) => MemberFacts,
): FreezeRound {
  const table = new ProcessTable(sample);
  const { members, unprovable, missingRoots } = processTree(table, query);
  const facts = new Map(members.map((one) => [one.pid, factsOf(one)]));
  const kept = keptPids(table, members, rules, facts);
  const drained = new Set<number>();
  for (const one of members) {
    const fact = facts.get(one.pid);
    if (fact === undefined || kept.has(one.pid)) continue;
    if (isVersionControl(one, fact.argv)) {
      // git waits for ssh, an editor or a hook: stopped, they would keep it from ever ending.
      for (const pid of table.descendants(one.pid)) drained.add(pid);
    } else if (fact.holdsLock) drained.add(one.pid);
  }
  const round: FreezeRound = { stop: [], drain: [], kept: [], unprovable, missingRoots };
  for (const one of members) {
    const why = kept.get(one.pid);
    if (why !== undefined) round.kept.push({ process: one, why });
    else if (drained.has(one.pid)) round.drain.push(one);
    else round.stop.push({ process: one, depth: depthOf(table, one.pid) });
  }
  return round;
}

/** Two rounds see the same processes to stop. */
export function sameStopSet(a: FreezeRound, b: FreezeRound): boolean {
  const keys = (round: FreezeRound): string =>
    round.stop
      .map(({ process: one }) => keyOf(one))
      .toSorted()
      .join(" ");
  return keys(a) === keys(b);
}

function keptPids(
  table: ProcessTable,
  members: readonly ProcessFacts[],
  rules: FreezeRules,
  facts: ReadonlyMap<number, MemberFacts>,
): Map<number, string> {
  const kept = new Map<number, string>();
  for (const { process: one, reach, why } of rules.keep) {
    if (table.find(one) === undefined) continue;
    const pids = [one.pid];
    if (reach === "ancestors" || reach === "family") pids.push(...table.ancestors(one.pid));
    if (reach === "descendants" || reach === "family") pids.push(...table.descendants(one.pid));
    for (const pid of pids) if (!kept.has(pid)) kept.set(pid, why);
  }
  for (const one of members) {
    if (!isHookCommand(facts.get(one.pid)?.argv ?? null, rules.launchers)) continue;
    for (const pid of table.descendants(one.pid)) {
      if (!kept.has(pid)) kept.set(pid, "a hook of the harness");
    }
  }
  return kept;
}

/**
 * The launcher as the kernel starts it (`sh <launcher> <Event>`), a copy of it that is about to run kk-hook, and the
 * shell a harness may start it through (`sh -c '<launcher> <Event> …'`). Only these exact shapes: a command of the
 * agent that merely mentions the launcher is not left running.
 */
export function isHookCommand(
  argv: readonly string[] | null,
  launchers: readonly string[],
): boolean {
  if (argv === null || argv.length !== 3) return false;
  const [program = "", second = "", third = ""] = argv;
  if (!SHELLS.has(baseName(program))) return false;
  return launchers.some((launcher) => {
    if (second === launcher) return /^[A-Za-z]+$/.test(third);
    if (!/^-[a-z]*c$/.test(second)) return false;
    const word = [launcher, `'${launcher}'`, `"${launcher}"`].find((w) => third.startsWith(w));
    return word !== undefined && HOOK_ARGUMENTS.test(third.slice(word.length));
  });
}

/** What a person's login shell may be: Codex starts hooks by it. */
const SHELLS: ReadonlySet<string> = new Set([
  "sh",
  "bash",
  "dash",
  "zsh",
  "ksh",
  "mksh",
  "fish",
  "csh",
  "tcsh",
]);
/**
 * One event name, and for a harness whose hooks fail open the refusal that stands in for a launcher that cannot run: its
 * words are words only, or whatever they begin would be left running.
 */
const HOOK_ARGUMENTS = new RegExp(
  String.raw`^ [A-Za-z]+(?: \|\| (?:\{ echo WORDS; exit 2; \}|/bin/sh -c 'echo "WORDS" >&2; exit 2'))?$`.replaceAll(
    "WORDS",
    String.raw`[^;&|$\x60()<>"'\\\n]*`,
  ),
);

/**
 * jj and git by name. Not git's long-lived helpers, which take no lock and would be waited for in vain: they are
 * stopped like any other process.
 */
export function isVersionControl(
  one: Pick<ProcessFacts, "name">,
  argv: readonly string[] | null,
): boolean {
  const called = baseName(argv?.[0] ?? "");
  const names = [one.name, called];
  if (names.includes("jj")) return true;
  if (!names.some((name) => name === "git" || name.startsWith("git-"))) return false;
  return !LONG_LIVED.has(gitSubcommand(argv ?? []));
}

/** Each serves others over a pipe, a socket or a window until told to end (git's manual, 2.53). */
const LONG_LIVED: ReadonlySet<string> = new Set([
  "cat-file",
  "check-attr",
  "check-ignore",
  "credential-cache--daemon",
  "daemon",
  "fsmonitor--daemon",
  "gui",
  "instaweb",
]);
/** Options of git itself whose value is the next argument. */
const VALUED = new Set(["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"]);

function gitSubcommand(argv: readonly string[]): string {
  const called = baseName(argv[0] ?? "");
  if (called.startsWith("git-")) return called.slice("git-".length);
  for (let at = 1; at < argv.length; at += 1) {
    const word = argv[at] ?? "";
    if (!word.startsWith("-")) return word;
    if (VALUED.has(word)) at += 1;
  }
  return "";
}

/** A lock file of jj or git, by its path as the kernel shows it. A deleted one no longer keeps anybody out. */
export function isLockFile(path: string): boolean {
  return /\/\.(?:jj|git)\//.test(path) && /(?:\/lock|\.lock)$/.test(path);
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

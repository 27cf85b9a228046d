/** Finding keys in the table: by the words of a path, and all of them by their spelling. */
import { CONFIG_KEYS, HARNESS_NAMES, type ConfigKey } from "./keys.ts";
import type { KeySpec } from "./spec.ts";

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** Kiki's own, the terminal's, and what would tie an agent to another agent's session. */
const RESERVED_VARIABLE = /^(?:KIKI_.*|TERM|TMUX|TMUX_PANE|CLAUDECODE|CLAUDE_CODE_SESSION_.*)$/;

/** Keys with a name of a person's choice at their end. `names` null: any that `refuse` lets pass. */
interface MapSpec {
  key: ConfigKey;
  names: readonly string[] | null;
  /** Why this name cannot be, completing "… "; null when it can. */
  refuse(name: string): string | null;
}

const MAPS: ReadonlyMap<string, MapSpec> = new Map(
  Object.entries<MapSpec>({
    "agent.harness_args": {
      key: "agent.harness_args.<name>",
      names: HARNESS_NAMES,
      refuse: () => null,
    },
    "agent.env": {
      key: "agent.env.<NAME>",
      names: null,
      refuse(name) {
        if (!VARIABLE.test(name)) return "is not a name for a variable";
        return RESERVED_VARIABLE.test(name)
          ? "is kiki's own or the terminal's, and stays so"
          : null;
      },
    },
  }),
);

/** Everything that has keys below it. */
const TABLES: ReadonlySet<string> = new Set(
  Object.keys(CONFIG_KEYS).flatMap((name) => {
    const words = name.split(".");
    return words.slice(1).map((_, n) => words.slice(0, n + 1).join("."));
  }),
);

export type FoundKey =
  | { is: "key"; spec: KeySpec; declared: ConfigKey }
  /** A table, or a map, that has keys below it. */
  | { is: "table" }
  /** The table takes no such name, and `why` says so. */
  | { is: "refused"; why: string }
  | { is: "unknown" };

/** What the words of a path name in the table. */
export function findKey(words: readonly string[]): FoundKey {
  const dotted = words.join(".");
  const map = MAPS.get(words.slice(0, -1).join("."));
  const last = words.at(-1) ?? "";
  if (map !== undefined) {
    if (map.names !== null && !map.names.includes(last)) return { is: "unknown" };
    const why = map.refuse(last);
    if (why !== null) return { is: "refused", why: `${dotted} ${why}` };
    return { is: "key", spec: specOf(map.key), declared: map.key };
  }
  if (isDeclared(dotted)) return { is: "key", spec: specOf(dotted), declared: dotted };
  return TABLES.has(dotted) ? { is: "table" } : { is: "unknown" };
}

export function specOf(declared: ConfigKey): KeySpec {
  return CONFIG_KEYS[declared] as KeySpec;
}

function isDeclared(dotted: string): dotted is ConfigKey {
  return Object.hasOwn(CONFIG_KEYS, dotted) && !isMap(dotted);
}

/** The declared key ends in a name of a person's choice. */
export function isMap(declared: string): boolean {
  return declared.endsWith(">");
}

/** `agent.env.` of `agent.env.<NAME>`. */
export function mapPrefix(declared: ConfigKey): string {
  return declared.slice(0, declared.indexOf("<"));
}

/** Every key that can be written down in full: maps with the names they are known to take. */
export function spelledKeys(): string[] {
  return Object.keys(CONFIG_KEYS).flatMap((declared) => {
    if (!isMap(declared)) return [declared];
    const prefix = mapPrefix(declared as ConfigKey);
    return (MAPS.get(prefix.slice(0, -1))?.names ?? []).map((name) => `${prefix}${name}`);
  });
}

/** From layers to what counts. */
import { CONFIG_KEYS, type ConfigKey, type ConfigValue } from "./keys.ts";
import { noSource, type Entries, type Entry, type LayerRead, type Problem } from "./layer.ts";
import { findKey, isMap, mapPrefix, specOf } from "./lookup.ts";
import { LAYERS } from "./spec.ts";

/** `upper` above `lower`: key by key, so maps merge and lists replace. Associative; the empty map is its neutral. */
export function overlay(lower: Entries, upper: Entries): Entries {
  return new Map([...lower, ...upper]);
}

/** What a layer goes on saying while it is broken: what `fresh` could not read stays as `previous` had it. */
export function keepLastGood(previous: LayerRead | null, fresh: LayerRead): LayerRead {
  if (previous === null || fresh.lost.length === 0) return fresh;
  const entries = new Map(fresh.entries);
  for (const [key, entry] of previous.entries) {
    const lost = fresh.lost.some(
      (name) => name === "" || key === name || key.startsWith(`${name}.`),
    );
    if (lost && !entries.has(key)) entries.set(key, { ...entry, kept: true });
  }
  return { ...fresh, entries };
}

export interface Setting extends Entry {
  key: string;
  declared: ConfigKey;
}

export interface Effective {
  /** Every declared key in the table's order, each map's names where the map stands. */
  settings: readonly Setting[];
  /** Of all layers, lowest first. */
  problems: readonly Problem[];
  /** Throws for a key that has neither value nor default. */
  value<K extends ConfigKey>(key: K): ConfigValue<K>;
  optional<K extends ConfigKey>(key: K): ConfigValue<K> | null;
  /** Values of a map by name. */
  map<K extends ConfigKey>(declared: K): Record<string, ConfigValue<K>>;
  /** null for a key that does not exist. */
  setting(dotted: string): Setting | null;
}

/** Layers may come in any order; two of one layer count in the order given. */
export function effective(layers: readonly LayerRead[]): Effective {
  const ordered = LAYERS.flatMap((layer) => layers.filter((read) => read.layer === layer));
  const entries = ordered.map((read) => read.entries).reduce(overlay, new Map());
  const setting = (dotted: string): Setting | null => settingOf(entries, dotted);
  const optional = <K extends ConfigKey>(key: K): ConfigValue<K> | null =>
    (setting(key)?.value ?? null) as ConfigValue<K> | null;
  return {
    settings: allKeys(entries).flatMap((dotted) => setting(dotted) ?? []),
    problems: ordered.flatMap((read) => read.problems),
    setting,
    optional,
    value(key) {
      const value = optional(key);
      if (value === null) throw new Error(`${key} has no default`);
      return value;
    },
    map<K extends ConfigKey>(declared: K) {
      const prefix = mapPrefix(declared);
      const named = [...entries].filter(([key]) => key.startsWith(prefix));
      return Object.fromEntries(
        named.map(([key, { value }]) => [key.slice(prefix.length), value as ConfigValue<K>]),
      );
    },
  };
}

function settingOf(entries: Entries, dotted: string): Setting | null {
  const found = findKey(dotted.split("."));
  if (found.is !== "key") return null;
  const { declared } = found;
  const entry = entries.get(dotted);
  if (entry !== undefined) return { ...entry, key: dotted, declared };
  const { default: value } = specOf(declared);
  return { key: dotted, declared, value, source: noSource("default"), kept: false };
}

function allKeys(entries: Entries): string[] {
  return (Object.keys(CONFIG_KEYS) as ConfigKey[]).flatMap((declared) => {
    if (!isMap(declared)) return [declared];
    const prefix = mapPrefix(declared);
    return [...entries.keys()].filter((key) => key.startsWith(prefix)).sort();
  });
}

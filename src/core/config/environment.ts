/** The environment as a layer: `KIKI_UI__THEME` sets `ui.theme`. */
import { parse } from "smol-toml";
import { nearest } from "../nearest.ts";
import { CONFIG_KEYS, type ConfigKey } from "./keys.ts";
import { emptyLayer, noSource, Reading, type LayerRead } from "./layer.ts";
import { findKey, isMap, mapPrefix, spelledKeys } from "./lookup.ts";
import { envName } from "./spec.ts";
import { configurationOf } from "./variables.ts";

type Env = Readonly<Record<string, string | undefined>>;

export function readEnvironment(env: Env): LayerRead {
  const variables = Object.entries(configurationOf(env)).sort(([a], [b]) => (a < b ? -1 : 1));
  if (variables.length === 0) return emptyLayer("env");
  const reading = new Reading(noSource("env"), new Map());
  for (const [variable, value] of variables) {
    const words = wordsOf(variable);
    if (words === null) {
      const known = spelledKeys().map(envName);
      reading.unknownVariable(variable, variable.length > 80 ? null : nearest(variable, known));
      continue;
    }
    const found = findKey(words);
    if (found.is !== "key" || found.spec.text) {
      reading.value(words, value, variable);
      continue;
    }
    const read = tomlValue(value);
    if (read === undefined) reading.unusable(words, found.spec.expected, value, variable);
    else reading.value(words, read, variable);
  }
  return reading.result();
}

/** The key a variable sets; null when there is none. */
function wordsOf(variable: string): string[] | null {
  for (const dotted of spelledKeys()) if (envName(dotted) === variable) return dotted.split(".");
  for (const declared of Object.keys(CONFIG_KEYS) as ConfigKey[]) {
    if (!isMap(declared)) continue;
    const prefix = mapPrefix(declared);
    const begin = envName(prefix);
    if (!variable.startsWith(begin) || variable.length === begin.length) continue;
    // A variable's name is taken as it is; a map with known names has been looked through above.
    if (declared.endsWith("<NAME>"))
      return [...prefix.slice(0, -1).split("."), variable.slice(begin.length)];
  }
  return null;
}

/** `undefined` when it is not one TOML value. */
function tomlValue(text: string): unknown {
  // A second line could set something else.
  if (/[\r\n]/.test(text)) return undefined;
  try {
    return parse(`value = ${text}`)["value"];
  } catch {
    return undefined;
  }
}

/** Renders docs/config.md from the table of keys, so that the page cannot say something else than the program does. */
import { CONFIG_KEYS, type ConfigKey } from "./keys.ts";
import { isMap, specOf } from "./lookup.ts";
import { effectOf, envName, LAYERS, type KeySpec, type Layer } from "./spec.ts";
import { tomlText } from "./text.ts";

const INTRO = `<!-- Made by scripts/gen-config-docs.ts from src/core/config/keys.ts; a test fails when it is out of date. -->

# Configuration

TOML. Layers, lowest first; a value of a later one hides those before it, key by key:

| layer | where |
| --- | --- |
| \`default\` | the tables below |
| \`repo-shared\` | \`.kiki.toml\` in the repository's main workspace |
| \`user\` | \`config.toml\` in the state folder, by default \`~/.config/kiki/config.toml\` |
| \`repo-local\` | \`repos/<repo id>/config.toml\` in the state folder |
| \`thread\` | the repository's database |
| \`env\` | variables: \`KIKI_UI__THEME\` sets \`ui.theme\` |
| \`flag\` | flags of a command: \`kk new --harness\`, \`--harness-arg\` |

- **Maps** (\`agent.env\`, \`agent.harness_args\`) merge by name; **lists** replace each other.
- **Unknown keys** are warnings with file, line and the nearest known key. A wrong value, or text that is not TOML, is an
  error with file, line and column; what it makes unreadable stays as the daemon last had it, or is not set.
- **Files are read again** when they have changed; nothing needs to be told. UTF-8, at most 256 KiB each.
- **Variables**: \`KIKI_\`, then the key in capitals, \`.\` as two underscores and \`-\` as one:
  \`${envName("agent.claude-code.pretrust")}\`. A name at the end of \`agent.env\` is taken as it is: \`KIKI_AGENT__ENV__http_proxy\`.
  Texts are taken as they are; everything else is written as in TOML: \`KIKI_SETUP__COPY='[".env"]'\`. An empty variable
  counts as not set. What commands read (\`agent.default_harness\`, kiki's own screens) comes from their own shell; everything
  else from the environment the daemon was started in, and \`kk config\` warns where the two differ. For what should last,
  use a file.
- **\`kk config show\`** lists every value with its layer, file and line; **\`kk config get <key>\`** one, with when a change
  takes effect. Both exit with 1 when an error stands in the way.

*Planned* keys are checked and shown, but nothing reads them in this version.
`;

/** The whole page, ending in one newline. */
export function renderConfigDocs(): string {
  const tables = Map.groupBy(Object.keys(CONFIG_KEYS) as ConfigKey[], (key) => {
    return key.slice(0, key.indexOf("."));
  });
  const sections = [...tables].map(([table, keys]) => section(table, keys));
  return [INTRO, ...sections].join("\n");
}

function section(table: string, keys: readonly ConfigKey[]): string {
  const rows = keys.map((key) => {
    const spec = specOf(key);
    const planned = spec.planned === true ? " *Planned.*" : "";
    const value = spec.default === null ? "" : `\`${tomlText(spec.default)}\``;
    const cells = [
      `\`${key}\``,
      value,
      sentence(spec.expected),
      `${spec.doc}${planned}`,
      `${effectOf(spec)}${limits(key, spec)}`,
    ];
    return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  });
  return [
    `## \`[${table}]\``,
    "",
    "| key | default | value | what | a change takes effect |",
    "| --- | --- | --- | --- | --- |",
    ...rows,
    "",
  ].join("\n");
}

function limits(key: ConfigKey, spec: KeySpec): string {
  const not = LAYERS.filter((layer) => !spec.layers.includes(layer));
  if (not.length === 0) return "";
  const files: readonly Layer[] = ["repo-shared", "user", "repo-local"];
  if (files.every((layer) => not.includes(layer)) && !isMap(key)) {
    return `; only as \`${envName(key)}\``;
  }
  return `; not from ${not.map((layer) => `\`${layer}\``).join(", ")}`;
}

function sentence(text: string): string {
  return text.replace(/"[^"]*"/g, (quoted) => `\`${quoted}\``);
}

/** Usage texts, made from the same definitions that parse: what is shown is what is accepted. Plain text. */
import type { CommandDef, SubCommandsDef } from "citty";
import { CASCADE_STATUSES } from "../core/intent.ts";
import { AGENT_DISPLAY_STATES } from "../core/lifecycle.ts";
import {
  AGENT_SIGNS,
  CASCADE_SIGNS,
  CHECKPOINT_BEHIND,
  CURRENT,
  FOLLOWS,
  NO_AGENT,
  stateSign,
} from "../core/render/glyphs.ts";
import { displayWidth, padEnd } from "../core/render/width.ts";
import { aliases, resolved, visibleNames, type KkArg } from "./args.ts";

const GLOBALS: readonly (readonly [string, string])[] = [
  ["-h, --help", "Show this text"],
  ["--verbose", "Show the causes of an error"],
];

/** What the usage of a command cannot say: the signs of its output, by the words they stand for. */
const NOTES: Readonly<Record<string, readonly { title: string; rows: typeof GLOBALS }[]>> = {
  ls: [
    {
      title: "First sign: the agent, or a thread that is not Active",
      rows: [
        ...AGENT_DISPLAY_STATES.map((state) => [AGENT_SIGNS[state].glyph, state] as const),
        [NO_AGENT.glyph, "no agent runs"],
        [stateSign("Creating", null).glyph, "on its way; the word in the row says to what"],
        [stateSign("CreateFailed", null).glyph, "needs a person; the word in the row says why"],
        [stateSign("Closed", null).glyph, "Closed"],
      ],
    },
    {
      title: "Second sign: the cascade",
      rows: CASCADE_STATUSES.map((status) => [CASCADE_SIGNS[status].glyph, status] as const),
    },
    {
      title: "Around them",
      rows: [
        [CURRENT, "the thread you are in"],
        [`${FOLLOWS} name`, "follows that thread"],
        [`kk/name${CHECKPOINT_BEHIND}`, "the bookmark is behind the thread's head"],
      ],
    },
  ],
};

/** `path`: the command's words after `kk`. */
export async function renderHelp(command: CommandDef, path: readonly string[]): Promise<string> {
  const meta = await resolved(command.meta);
  const defs = Object.entries(((await resolved(command.args)) ?? {}) as Record<string, KkArg>);
  const subCommands = (await resolved(command.subCommands)) ?? {};
  const positionals = defs.filter(([, def]) => def.type === "positional");
  const flags = defs.filter(([, def]) => def.type !== "positional");
  const usage = [
    ["kk", ...path].join(" "),
    ...positionals.map(([name, def]) => (def.required === false ? `[${name}]` : `<${name}>`)),
    ...(Object.keys(subCommands).length > 0 ? ["<command>"] : []),
    ...(flags.length > 0 ? ["[flags]"] : []),
  ];
  const sections = [
    section("Commands", await commandRows(subCommands)),
    section(
      "Arguments",
      positionals.map(([name, def]) => [name, def.description ?? ""] as const),
    ),
    section("Flags", [...flags.flatMap(flagRows), ...GLOBALS]),
  ];
  const more =
    Object.keys(subCommands).length > 0
      ? `\n\n${["kk help", ...path, "<command>"].join(" ")} shows how one is used.`
      : "";
  const notes = (NOTES[path.join(" ")] ?? []).map(({ title, rows }) => section(title, rows));
  const head = `${meta?.description ?? ""}\n\nUsage: ${usage.join(" ")}`;
  return head + sections.join("") + notes.join("") + more;
}

function section(title: string, rows: readonly (readonly [string, string])[]): string {
  if (rows.length === 0) return "";
  const width = Math.max(...rows.map(([left]) => displayWidth(left)));
  const lines = rows.map(([left, right]) => `  ${padEnd(left, width)}  ${right}`.trimEnd());
  return `\n\n${title}:\n${lines.join("\n")}`;
}

async function commandRows(subCommands: SubCommandsDef): Promise<(readonly [string, string])[]> {
  return Promise.all(
    visibleNames(subCommands).map(async (name) => {
      const command = (await resolved(subCommands[name])) as CommandDef;
      return [name, (await resolved(command.meta))?.description ?? ""] as const;
    }),
  );
}

function flagRows([name, def]: [string, KkArg]): (readonly [string, string])[] {
  const short = aliases(def).map((alias) => `-${alias}`);
  const options = def.type === "enum" ? (def.options ?? []).join("|") : null;
  const value = def.type === "boolean" ? "" : ` <${options ?? def.valueHint ?? "value"}>`;
  const row = [`${[...short, `--${name}`].join(", ")}${value}`, def.description ?? ""] as const;
  if (!("negativeDescription" in def)) return [row];
  const negative = [`--no-${name}`, def.negativeDescription ?? ""] as const;
  // On by default: only turning it off is worth a line.
  return def.default === true ? [negative] : [row, negative];
}

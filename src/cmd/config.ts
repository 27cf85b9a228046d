/** `kk config`: every value with the layer it comes from. */
import { defineCommand } from "citty";
import { placeOf, problemLine } from "../core/config/problem.ts";
import { tomlText } from "../core/config/text.ts";
import { configurationOf } from "../core/config/variables.ts";
import { padEnd, printable } from "../core/render/width.ts";
import type { Client } from "../rpc/client.ts";
import type { Output } from "../rpc/contract/methods.ts";
import type { ConfigSetting } from "../rpc/contract/types.ts";
import { connect } from "./connect.ts";
import { discoverContext } from "./context.ts";
import { note, print, printError, printJson } from "./out.ts";

type Config = Output<"GetConfig">;
type Problem = Config["problems"][number];

const json = { type: "boolean", description: "Print as JSON" } as const;

const getCommand = defineCommand({
  meta: { name: "get", description: "One value, its layer, and when a change takes effect" },
  args: {
    key: {
      type: "positional",
      required: true,
      description: "A key (cascade.hold_s), or a table (cascade)",
    },
    json,
  },
  async run({ args }) {
    const { client } = await connect();
    const config = await configHere(client, args.key);
    printProblems(config.problems);
    const [only] = config.settings;
    if (args.json) printJson(config);
    else if (only !== undefined && only.key === args.key) print(renderSetting(only));
    else print(renderSettings(config.settings));
    if (config.problems.some((problem) => concerns(problem, args.key))) process.exitCode = 1;
  },
});

const showCommand = defineCommand({
  meta: {
    name: "show",
    description: "Every value and its layer, files, and what is wrong in them",
  },
  args: { json },
  async run({ args }) {
    const { client } = await connect();
    const config = await configHere(client, null);
    printProblems(config.problems);
    if (args.json) printJson(config);
    else print(`${renderFiles(config)}\n\n${renderSettings(config.settings)}\n\n${LEGEND}`);
    if (config.problems.some((problem) => problem.severity === "error")) process.exitCode = 1;
  },
});

export const configCommand = defineCommand({
  meta: { name: "config", description: "Show configuration, and where each value comes from" },
  subCommands: { get: getCommand, show: showCommand },
});

const LEGEND = [
  "hot: a change counts at once · lifecycle: for threads made and agents started from then on",
  "restart: with kk daemon restart · planned: nothing reads it in this version",
].join("\n");

/** Configuration for the thread this command is in, else for the repository of the folder, else the user's. */
export async function configHere(client: Client, key: string | null): Promise<Config> {
  const { repo, thread } = await discoverContext(client);
  return client.call("GetConfig", {
    repo: repo === null ? null : { repoId: repo.repoId },
    thread: thread?.threadId ?? null,
    key,
    env: configurationOf(process.env),
  });
}

/** On stderr: an error is something that does not count, a warning something that was ignored. */
export function printProblems(problems: readonly Problem[]): void {
  for (const problem of problems) {
    const line = printable(problemLine(problem));
    if (problem.severity === "error") printError(`kk: ${line}`);
    else note(line);
  }
}

/** The error stands in the way of this very key. */
function concerns({ severity, key }: Problem, asked: string): boolean {
  if (severity !== "error") return false;
  return (
    key === null || key === asked || key.startsWith(`${asked}.`) || asked.startsWith(`${key}.`)
  );
}

function renderSetting(setting: ConfigSetting): string {
  const { value, doc, effect, planned, kept, layer } = setting;
  const source = placeOf(setting) === "" ? "" : ` ${placeOf(setting)}`;
  const lines = [
    `${setting.key} = ${tomlText(value)}`,
    `  layer   ${layer}${source}${kept ? " (the last good value)" : ""}`,
    `  change  takes effect ${effect}${planned ? "; nothing reads it in this version" : ""}`,
    `  about   ${doc}`,
  ];
  return lines.map(printable).join("\n");
}

function renderFiles({ files, repo, thread }: Config): string {
  const about =
    repo === null
      ? "the user's alone: this folder is in no registered repository"
      : `${repo.path}${thread === null ? "" : `, thread ${JSON.stringify(thread.name)}`}`;
  const rows = files.map(
    ({ layer, path, present }) => `  ${padEnd(layer, 11)}  ${path}${present ? "" : " (not there)"}`,
  );
  return [`Configuration of ${about}`, ...rows].map(printable).join("\n");
}

/** Longer values are not padded to. */
const VALUE_COLUMNS = 24;

function renderSettings(settings: readonly ConfigSetting[]): string {
  if (settings.length === 0) return "nothing is set there";
  const keyColumns = Math.max(...settings.map(({ key }) => key.length));
  return settings
    .map((setting) => {
      const { key, value, layer, reload, planned, kept } = setting;
      const place = `${placeOf(setting)}${kept ? " (last good)" : ""}`;
      const columns = [
        padEnd(key, keyColumns),
        padEnd(printable(tomlText(value)), VALUE_COLUMNS),
        padEnd(planned ? `${reload}, planned` : reload, 18),
        padEnd(layer, 11),
        printable(place),
      ];
      return columns.join("  ").trimEnd();
    })
    .join("\n");
}

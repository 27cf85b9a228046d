/** `kk`: reads the command line, runs one verb, and turns every failure into one line and an exit code. */
import { defineCommand, runCommand, type CommandDef } from "citty";
import { BUILD, VERSION } from "../version.ts";
import { parseCommandLine, type ParsedLine } from "./args.ts";
import { errorText, exitCodeOf, print, printError, printJson } from "./out.ts";

const SUMMARY = "kiki: threads of agent-led work on jj, kept coherent";

const versionCommand = defineCommand({
  meta: { name: "version", description: "Print the version" },
  args: { json: { type: "boolean", description: "Print as JSON" } },
  run({ args }) {
    if (args.json) printJson({ version: VERSION, build: BUILD });
    else print(versionLine());
  },
});

const helpCommand = defineCommand({
  meta: { name: "help", description: "Show how a command is used" },
  args: {
    command: { type: "positional", required: false, description: "A command" },
    subcommand: { type: "positional", required: false, description: "A command of that command" },
  },
  async run({ args }) {
    const words = [args.command, args.subcommand].filter((word) => word !== undefined);
    const line = await parseCommandLine(rootCommand, [...words, "--help"]);
    await usage(line);
  },
});

/** Loaded when used: every module not loaded is milliseconds saved at each start. */
const rootCommand: CommandDef = defineCommand({
  meta: { name: "kk", description: SUMMARY, version: VERSION },
  subCommands: {
    init: () => import("./init.ts").then((m) => m.initCommand),
    new: () => import("./new.ts").then((m) => m.newCommand),
    switch: () => import("./switch.ts").then((m) => m.switchCommand),
    ls: () => import("./ls.ts").then((m) => m.lsCommand),
    status: () => import("./status.ts").then((m) => m.statusCommand),
    thread: () => import("./thread.ts").then((m) => m.threadCommand),
    repair: () => import("./repair.ts").then((m) => m.repairCommand),
    repo: () => import("./repo.ts").then((m) => m.repoCommand),
    audit: () => import("./audit.ts").then((m) => m.auditCommand),
    presenter: () => import("./presenter.ts").then((m) => m.presenterCommand),
    config: () => import("./config.ts").then((m) => m.configCommand),
    doctor: () => import("./doctor.ts").then((m) => m.doctorCommand),
    daemon: () => import("./daemon.ts").then((m) => m.daemonCommand),
    version: versionCommand,
    help: helpCommand,
  },
  run: () => overview(),
});

/** The process ends by itself with the exit code set: output to a slow pipe is never cut. */
export async function main(argv: readonly string[]): Promise<void> {
  let verbose = argv.includes("--verbose");
  try {
    const internal = await runInternal(argv);
    if (internal !== null) process.exit(internal);
    const line = await parseCommandLine(rootCommand, argv);
    verbose = line.verbose;
    await run(line);
  } catch (error) {
    printError(errorText(error, verbose));
    process.exitCode = exitCodeOf(error);
  }
}

/** kiki's own commands take exactly what kiki gives them; they are not part of the help. */
async function runInternal(argv: readonly string[]): Promise<number | null> {
  const [name, ...rest] = argv;
  if (name === "__pane") return (await import("./pane.ts")).runPane(rest);
  if (name === "__start-daemon") return (await import("./start-daemon.ts")).runStartDaemon(rest);
  return null;
}

async function run(line: ParsedLine): Promise<void> {
  if (line.help) return usage(line);
  if (line.version) return print(versionLine());
  // The leaf alone: a parent's sub-commands would make citty look for one among the arguments.
  const { subCommands: _, ...leaf } = line.command;
  await runCommand(leaf as CommandDef, { rawArgs: line.canonical, data: line.data });
}

async function usage(line: ParsedLine): Promise<void> {
  const { renderHelp } = await import("./help.ts");
  print(await renderHelp(line.command, line.path));
}

/** Bare `kk`: what there is, here or everywhere; before the first repository, how kk is used. */
async function overview(): Promise<void> {
  const [{ connect }, { printOverview }] = await Promise.all([
    import("./connect.ts"),
    import("./ls.ts"),
  ]);
  const { client } = await connect();
  if (await printOverview(client)) return;
  const { renderHelp } = await import("./help.ts");
  print(await renderHelp(rootCommand, []));
}

function versionLine(): string {
  return `kiki ${VERSION} (${BUILD})`;
}

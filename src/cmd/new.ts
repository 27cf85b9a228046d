/** `kk new`: plan, a person's yes, the creation saga with its progress, and then the thread itself. */
import { fstatSync, readFileSync } from "node:fs";
import { isatty } from "node:tty";
import { defineCommand } from "citty";
import { agentEnv } from "../core/agent-env.ts";
import { configurationOf } from "../core/config/variables.ts";
import { fail } from "../core/errors.ts";
import { printable } from "../core/render/width.ts";
import { shellLine, threadWord } from "../core/shell-line.ts";
import type { Client } from "../rpc/client.ts";
import type { Output } from "../rpc/contract/methods.ts";
import { approvedCall, type Request } from "./approved-call.ts";
import type { CommandData } from "./args.ts";
import { printProblems } from "./config.ts";
import { connect } from "./connect.ts";
import { contextThread } from "./context.ts";
import { clientOf } from "./credentials.ts";
import { DEFAULT_HARNESS, findHarness, HARNESS_BINARIES } from "./harness-binaries.ts";
import { note, print, printError, printJson } from "./out.ts";
import { followCreation } from "./progress.ts";
import { runOnTerminal } from "./spawn-tty.ts";
import { moveTo, sessionSocket } from "./tmux-client.ts";

type NewThread = Request<"NewThread">;

export const newCommand = defineCommand({
  meta: { name: "new", description: "Create a thread: workspace, bookmark, tmux session, agent" },
  args: {
    name: {
      type: "positional",
      required: false,
      description: "Default: first words of the prompt",
    },
    prompt: {
      type: "string",
      alias: "m",
      valueHint: "text",
      description: "What the agent should do; default: standard input when it is piped",
    },
    follows: { type: "string", valueHint: "thread", description: "Parent thread" },
    follow: {
      type: "boolean",
      default: true,
      description: "Inside a thread, follow it",
      negativeDescription: "Inside a thread, do not follow it",
    },
    base: { type: "string", valueHint: "revset", description: "Commit to start from" },
    harness: {
      type: "enum",
      options: Object.keys(HARNESS_BINARIES),
      description: "Coding agent (default: agent.default_harness of the configuration)",
    },
    "harness-arg": {
      type: "string",
      valueHint: "arg",
      description: "Argument for the agent, instead of agent.harness_args; may be repeated",
      repeat: true,
    },
    detach: { type: "boolean", description: "Stay here afterwards" },
    json: {
      type: "boolean",
      description: "Print the thread's state as JSON, progress on stderr, and stay here",
    },
  },
  async run({ args, data }) {
    const follows = args.follows ?? null;
    if (follows !== null && !args.follow) {
      throw fail("usage", "usage", "--follows and --no-follow exclude each other", "kk help new");
    }
    const connection = await connect();
    const request = await gather(connection.client, {
      name: args.name ?? null,
      prompt: args.prompt ?? readPipedPrompt(),
      follows,
      noFollow: !args.follow,
      base: args.base ?? null,
      harness: args.harness ?? null,
      harnessArgs: (data as CommandData | undefined)?.lists["harness-arg"] ?? [],
    });
    const json = args.json === true;
    const created = await approvedCall(connection, "NewThread", request, {
      asked: asked(request),
      json,
    });
    await followCreation(created, json ? printError : print);
    if (json) return printJson(await stateNow(created));
    print(`created ${printable(created.name)}`);
    await arrive(created, args.detach === true);
  },
});

function asked({ name, follows }: NewThread): string {
  const what =
    name === null ? "a new thread, named by kiki" : `a new thread ${JSON.stringify(name)}`;
  return follows === null ? what : `${what} that follows ${JSON.stringify(follows)}`;
}

type Given = Pick<
  NewThread,
  "name" | "prompt" | "follows" | "noFollow" | "base" | "harness" | "harnessArgs"
>;

/** What only this terminal knows: place, tmux server, size, PATH, environment. */
async function gather(client: Client, given: Given): Promise<NewThread> {
  const folder = process.cwd();
  const context = await contextThread(client);
  const repo = context === null ? { folder } : { repoId: context.repoId };
  const harness = given.harness ?? (await configuredHarness(client, repo));
  const shell = process.env["SHELL"];
  return {
    ...given,
    harness,
    prompt: given.prompt?.trim() ? given.prompt : null,
    repo,
    contextThread: context?.threadId ?? null,
    folder,
    harnessExecutable: findHarness(harness, process.env),
    tmuxSocket: sessionSocket(process.env),
    ...terminalSize(),
    shell: shell?.startsWith("/") ? shell : "/bin/sh",
    env: agentEnv(process.env),
  };
}

/** What is wrong in the configuration a thread is made with is said before its plan is shown. */
async function configuredHarness(client: Client, repo: NewThread["repo"]): Promise<string> {
  const { settings, problems } = await client.call("GetConfig", {
    repo,
    thread: null,
    key: "agent.default_harness",
    env: configurationOf(process.env),
  });
  printProblems(problems);
  const value = settings[0]?.value;
  return typeof value === "string" ? value : DEFAULT_HARNESS;
}

/** tmux gives a session nobody is attached to the size it was made with. */
function terminalSize(): { columns: number; rows: number } {
  const size = isatty(1) ? process.stdout : null;
  return {
    columns: clamp(size?.columns ?? 120, 20, 2000),
    rows: clamp(size?.rows ?? 40, 5, 1000),
  };
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}

/** Standard input when something was piped or redirected into it; a terminal or /dev/null is no prompt. */
function readPipedPrompt(): string | null {
  try {
    const input = fstatSync(0);
    if (!input.isFIFO() && !input.isFile() && !input.isSocket()) return null;
    return readFileSync(0, "utf8");
  } catch {
    return null;
  }
}

/** Asked as the new thread: inside another one, kk may not read it otherwise. */
async function stateNow(created: Output<"NewThread">): Promise<Output<"GetThreadState">> {
  const { repoId, threadId } = created;
  // The daemon may have been replaced while the agent started.
  const { stateDir } = await connect();
  return clientOf(stateDir, repoId, threadId).call("GetThreadState", {
    repo: { repoId },
    thread: threadId,
  });
}

/** Goes to the new thread when this terminal is in its tmux server; else says how to get there. */
async function arrive(created: Output<"NewThread">, detach: boolean): Promise<void> {
  if (detach) return print(`kk switch ${threadWord(created.name)}`);
  // The daemon may have been replaced while the agent started.
  const { client } = await connect();
  const thread = { repo: { repoId: created.repoId }, thread: created.threadId };
  const { summary } = await client.call("EnsurePanes", thread);
  if (summary.tmuxSessionId === null) return;
  const session = { socket: summary.tmuxSocket, sessionId: summary.tmuxSessionId };
  const move = moveTo(session, process.env, false);
  if (move.how === "tell") return print(shellLine(move.argv));
  const code = runOnTerminal(move.argv);
  if (code !== 0) note(`tmux did not switch (exit ${code}); try: ${shellLine(move.argv)}`);
}

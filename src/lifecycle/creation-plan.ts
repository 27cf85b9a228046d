/**
 * The preflight of `kk new`: everything that can be known before anything is made, as one plan a person confirms and
 * the daemon recomputes. Mutates nothing.
 */
import { agentEnv } from "../core/agent-env.ts";
import { canonicalJson } from "../core/canonical.ts";
import { fail } from "../core/errors.ts";
import { nearest } from "../core/nearest.ts";
import { listCandidates, resolveThread } from "../core/resolve.ts";
import { shellWord } from "../core/shell-line.ts";
import { HARNESSES, type HarnessName } from "../ports/harness.ts";
import { allThreads, type ThreadRow } from "../store/threads.ts";
import { chooseBase, parentHead, type BaseChoice } from "./creation-base.ts";
import {
  pickInput,
  settingsOf,
  sha256Hex,
  type CreateArgs,
  type CreateInput,
  type CreationDeps,
} from "./creation-deps.ts";
import type { ChosenNames, ThreadNames } from "./creation-names.ts";
import { planText, type PlanTextFacts } from "./creation-plan-text.ts";
import { provedHarness, standingWords } from "./harness-standing.ts";
import { planSetup } from "./setup-plan.ts";

/**
 * Name and prompt reach jj and the agent as one argument each, and Linux takes 128 KiB for one (MAX_ARG_STRLEN); a
 * later start puts a payload in front of the prompt. Found out by the agent's start, it would undo a whole creation.
 */
const MAX_PROMPT_BYTES = 100_000;
const MAX_NAME_BYTES = 4_000;

export interface CreationPlan {
  method: "NewThread";
  text: string;
  /** The same text laid out for a terminal of this width. */
  textFor(columns: number): string;
  /** Hex SHA-256 over method, arguments, observed state and text. */
  digest: string;
  names: ThreadNames;
  harness: HarnessName;
  harnessExecutable: string;
  args: CreateArgs;
}

/**
 * `once.again`: the thread is there already, its creation failed. Throws KikiError, each one line with its remedy: `harness-unknown`, `harness-missing`,
 * `prompt-too-long`, `name-too-long`, `text-with-nul`, `harness-arg`, `harness-version`, `follow-options`, `unknown-thread`, `ambiguous-thread`, `parent-not-active`,
 * `harness-unsupported`, `base-not-one-commit`, `no-workspace`, `workspaces-root-missing`, `workspace-path-exists`, `workspace-exists`,
 * `bookmark-exists`, `session-exists`, and the version errors of jj, git and tmux.
 */
export async function planCreation(
  deps: CreationDeps,
  request: CreateInput,
  chosen: ChosenNames,
  once: { again: boolean; leftovers: boolean } = { again: false, leftovers: false },
): Promise<CreationPlan> {
  const input = pickInput(request);
  checkTexts(input);
  const { harness, executable } = checkHarness(deps, input);
  const threads = allThreads(deps.db);
  const parent = chooseParent(threads, input);
  const { names } = chosen;
  const settings = settingsOf(deps);
  const { briefing, agentEnv: configuredEnv, shellPane: pane, codex } = settings;
  const pretrust = harness === "claude-code" && settings.claudeCode.pretrust;
  const shellPane =
    pane.wanted && input.rows >= pane.minRows
      ? { position: pane.position, sizePercent: pane.sizePercent }
      : null;
  const env = { ...agentEnv(input.env), ...configuredEnv };

  const tmux = deps.tmux(input.tmuxSocket);
  const [tools, tmuxVersion] = await Promise.all([
    deps.jjBackend.checkVersions(),
    tmux.checkVersion(),
  ]);
  const proved = await provedHarness(deps, harness, executable, env);
  const harnessVersion = proved.version;
  const op = await deps.refreshToFrontier(deps.repoId);
  const base =
    parent === null
      ? await chooseBase(deps.jj, op, { revset: input.base, folder: input.folder })
      : baseOfParent(parent, await parentHead(deps.jj, op, parent));
  // What is left of a failed attempt is taken away first, and stands in the way until then.
  if (!once.leftovers) await checkFree(deps, op, names, input.tmuxSocket);
  const setup = await planSetup(deps);

  const facts: PlanTextFacts = {
    ...names,
    nameTaken: chosen.taken,
    nameMade: input.name === null,
    again: once.again,
    repoRoot: deps.jj.location.repoRoot,
    follows: parent,
    base,
    session: names.tmuxSession,
    tmuxSocket: input.tmuxSocket,
    shellPane: shellPane === null ? null : input.shell,
    colocated: deps.jj.location.colocated,
    harness,
    harnessVersion,
    standing: {
      ...standingWords(proved.proofs),
      source: proved.source,
      inWorkspace:
        proved.proofs.find((p) => p.name === "settings-flags" && p.outcome !== "proved")?.reason ??
        null,
    },
    harnessExecutable: executable,
    harnessArgs: input.harnessArgs,
    pretrust,
    writesOutside: deps.harness(harness).writesOutside?.(deps.jj.location.repoRoot) ?? [],
    prompt: input.prompt,
    environment: Object.keys(input.env).length,
    configured: Object.keys(configuredEnv),
    setup,
  };
  const text = planText(facts);
  // Commits and names, not operation ids: what happens elsewhere in the repository does not void a plan.
  const observed = {
    base,
    parent: parent?.threadId ?? null,
    names,
    harnessVersion,
    tools,
    tmuxVersion,
    // Absent for another harness: its plans are those of before.
    settings: {
      briefing,
      env: configuredEnv,
      shellPane,
      ...(harness === "codex" ? { codex } : {}),
      ...(pretrust ? { pretrust } : {}),
    },
    setup,
  };
  const digest = sha256Hex(canonicalJson(["NewThread", deps.repoId, input, observed, text]));
  const args: CreateArgs = {
    digest,
    follows: parent?.threadId ?? null,
    base: base.commit,
    baseAsked: { revset: input.base, folder: input.folder },
    setup: setup?.recipe ?? null,
    columns: input.columns,
    rows: input.rows,
    shell: input.shell,
    shellPane,
  };
  return {
    method: "NewThread",
    text,
    textFor: (columns) => planText(facts, columns),
    digest,
    names,
    harness,
    harnessExecutable: executable,
    args,
  };
}

function checkTexts({ name, prompt }: CreateInput): void {
  for (const text of [name, prompt]) {
    if (!text?.includes("\0")) continue;
    throw fail("usage", "text-with-nul", "a name or a prompt cannot contain a NUL byte");
  }
  if (Buffer.byteLength(name ?? "") > MAX_NAME_BYTES) {
    throw fail(
      "usage",
      "name-too-long",
      `the name is longer than ${MAX_NAME_BYTES} bytes`,
      "kk new <name> -m <prompt>: the long text is the prompt",
    );
  }
  if (Buffer.byteLength(prompt ?? "") > MAX_PROMPT_BYTES) {
    throw fail(
      "usage",
      "prompt-too-long",
      `the prompt is longer than ${MAX_PROMPT_BYTES / 1000} kB, more than a program can be started with`,
      "put the text into a file and let the prompt name it",
    );
  }
}

function checkHarness(
  deps: CreationDeps,
  input: CreateInput,
): { harness: HarnessName; executable: string } {
  const asked = input.harness ?? HARNESSES[0];
  const harness = HARNESSES.find((name) => name === asked);
  if (harness === undefined) {
    throw fail(
      "usage",
      "harness-unknown",
      `no harness "${asked}"`,
      `--harness is ${HARNESSES.join(" or ")}`,
    );
  }
  if (input.harnessExecutable === null) {
    const other = HARNESSES.find((name) => name !== harness) ?? "";
    throw fail(
      "failed",
      "harness-missing",
      `${harness} not on PATH`,
      `install it or pass --harness ${other}`,
    );
  }
  deps.harness(harness).checkArguments(input.harnessArgs);
  return { harness, executable: input.harnessExecutable };
}

/** `--follows`, else the thread the command was given in, unless `--no-follow`. */
function chooseParent(threads: readonly ThreadRow[], input: CreateInput): ThreadRow | null {
  if (input.follows !== null && input.noFollow) {
    throw fail("usage", "follow-options", "--follows and --no-follow exclude each other");
  }
  if (input.noFollow) return null;
  const parent =
    input.follows === null
      ? // A context of another repository's is no thread here: then nothing is followed.
        (threads.find(
          (t) => t.threadId === input.contextThread || t.name === input.contextThread,
        ) ?? null)
      : namedThread(threads, input.follows);
  if (parent === null) return null;
  if (input.base !== null) {
    throw fail(
      "usage",
      "follow-options",
      `a thread that follows "${parent.name}" starts at that thread's working copy, not at --base`,
      input.follows === null ? "add --no-follow, or leave --base out" : "give one of the two",
    );
  }
  if (parent.lifecycle !== "Active") {
    throw fail(
      "failed",
      "parent-not-active",
      `thread "${parent.name}" is ${parent.lifecycle}; only an Active thread can be followed`,
      "follow another one, or add --no-follow",
    );
  }
  return parent;
}

function namedThread(threads: readonly ThreadRow[], target: string): ThreadRow {
  const candidates = threads.filter((t) => t.lifecycle !== "Destroyed");
  const found = resolveThread(candidates, target);
  if (found.ok) return found.value;
  if (found.error.problem === "ambiguous") {
    throw fail(
      "usage",
      "ambiguous-thread",
      `"${target}" could be ${listCandidates(found.error.candidates)}`,
      "name one of them in full, or by its id",
    );
  }
  const near = nearest(
    target,
    candidates.map((t) => t.name),
  );
  const known = candidates.slice(-5).map((t) => `"${t.name}"`);
  throw fail(
    "notFound",
    "unknown-thread",
    `no thread "${target}"`,
    near === null
      ? known.length === 0
        ? "there are no threads yet"
        : `threads: ${known.join(", ")}`
      : `did you mean "${near}"?`,
  );
}

function baseOfParent(
  parent: ThreadRow,
  head: { commitId: string; description: string },
): BaseChoice {
  return {
    commit: head.commitId,
    description: head.description,
    why: `the working copy (@) of "${parent.name}", read again when it is made`,
  };
}

async function checkFree(
  deps: CreationDeps,
  op: string,
  names: ThreadNames,
  tmuxSocket: string | null,
): Promise<void> {
  const { workspacesRoot } = settingsOf(deps);
  if (workspacesRoot !== null && (await deps.files.kind(workspacesRoot)) === "absent") {
    throw fail(
      "failed",
      "workspaces-root-missing",
      `paths.workspaces_root is ${workspacesRoot}, and there is no such folder`,
      `mkdir -p ${shellWord(workspacesRoot)}, or change the configuration`,
    );
  }
  if ((await deps.files.kind(names.workspacePath)) !== "absent") {
    throw fail(
      "failed",
      "workspace-path-exists",
      `${names.workspacePath} exists already`,
      "move it away, or choose another name",
    );
  }
  if ((await deps.jj.workspaces(op)).some((w) => w.workspace === names.workspaceName)) {
    throw fail(
      "failed",
      "workspace-exists",
      `jj already has a workspace ${names.workspaceName}`,
      `jj workspace forget ${names.workspaceName}, or choose another name`,
    );
  }
  if ((await deps.jj.bookmarks(op)).some((b) => b.name === names.bookmark)) {
    throw fail(
      "failed",
      "bookmark-exists",
      `jj already has a bookmark ${names.bookmark}`,
      `jj bookmark rename ${names.bookmark} <other>, or choose another name`,
    );
  }
  const sessions = await deps.tmux(tmuxSocket).listSessions();
  if (!sessions.known) {
    throw fail(
      "failed",
      "tmux-unknown",
      `tmux does not say which sessions exist: ${sessions.reason}`,
    );
  }
  if (sessions.value.some((s) => s.name === names.tmuxSession)) {
    throw fail(
      "failed",
      "session-exists",
      `tmux already has a session ${names.tmuxSession}`,
      `tmux rename-session -t =${names.tmuxSession} <other>, or choose another name`,
    );
  }
}

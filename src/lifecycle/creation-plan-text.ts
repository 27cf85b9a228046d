/** The plan of `kk new` as a person reads and confirms it: plain text, at most 80 columns where the content allows. */
import { short, type CommitId } from "../core/ids.ts";
import { displayWidth, padEnd, printable } from "../core/render/width.ts";
import type { SetupPlan } from "./setup-plan.ts";

const COLUMNS = 80;
/** Width of the column that names each line. */
const LABEL_COLUMNS = 11;
/** Lines of the prompt that are shown; the digest covers all of it. */
const MAX_PROMPT_LINES = 12;

export interface PlanTextFacts {
  name: string;
  /** The name that was asked for, when another thread has it already. */
  nameTaken: string | null;
  /** kiki chose the name. */
  nameMade: boolean;
  /** Its creation failed before. */
  again: boolean;
  repoRoot: string;
  follows: { name: string } | null;
  base: { commit: CommitId; description: string; why: string };
  workspacePath: string;
  workspaceName: string;
  bookmark: string;
  session: string;
  tmuxSocket: string | null;
  shellPane: string | null;
  colocated: boolean;
  harness: string;
  harnessVersion: string;
  harnessExecutable: string;
  harnessArgs: readonly string[];
  prompt: string | null;
  environment: number;
  /** Names of the variables that `[agent] env` adds. */
  configured: readonly string[];
  setup: SetupPlan | null;
}

export function planText(f: PlanTextFacts): string {
  const title = f.again ? "Make thread" : "New thread";
  const lines: string[] = [`${title} "${printable(f.name)}"${f.again ? " once more" : ""}`, ""];
  const row = (label: string, text: string): void => {
    lines.push(...labelled(label, printable(text)));
  };
  if (f.nameTaken !== null) row("name", `"${f.nameTaken}" is taken, so this one is "${f.name}"`);
  if (f.nameMade) row("name", "made by kiki, which may change it later");
  row("repo", f.repoRoot);
  row("follows", f.follows === null ? "no other thread" : `"${f.follows.name}"`);
  if (f.follows !== null) {
    row("", "when it changes, the files here follow and the agent is told");
  }
  row("base", `${short(f.base.commit)} ${quoted(f.base.description)}`);
  row("", f.base.why);

  lines.push("", "Created");
  row("workspace", f.workspacePath);
  row("", `jj workspace ${f.workspaceName}${f.colocated ? ", usable by git as well" : ""}`);
  row("change", `one empty change on the base, described "${f.name}"`);
  row("bookmark", `${f.bookmark}, on that change`);
  row(
    "session",
    `${f.session}, ${f.tmuxSocket === null ? "default tmux server" : `tmux server ${f.tmuxSocket}`}`,
  );
  row("", f.shellPane === null ? "one pane: the agent" : `two panes: the agent and ${f.shellPane}`);

  if (f.setup !== null) lines.push("", "Set-up", ...setupLines(f.setup, f.repoRoot));

  lines.push("", "Agent");
  row("harness", `${f.harness} ${f.harnessVersion}`);
  row("program", f.harnessExecutable);
  row(
    "arguments",
    f.harnessArgs.length === 0 ? "none of yours" : f.harnessArgs.map(word).join(" "),
  );
  row("settings", "kiki's own hooks, generated outside the workspace; your files are not changed");
  row("variables", `${f.environment} of your shell's, from a fixed list of names`);
  if (f.configured.length > 0) row("", `set by agent.env: ${f.configured.join(", ")}`);
  lines.push(...promptLines(f.prompt));

  lines.push(
    "",
    ...wrap(
      "If a step fails, the steps before it are undone in reverse order and the thread stays listed as " +
        "CreateFailed with the reason. A folder that holds anything you or an agent wrote is kept.",
      COLUMNS,
    ),
  );
  return `${lines.join("\n")}\n`;
}

const SHARED_NEWS = {
  new: "you are asked about this recipe for the first time",
  changed: "CHANGED since a recipe of it was last agreed to",
  unchanged: "the same as last agreed to",
};
/** Files that are named one by one; the digest covers all of them. */
const MAX_FILES_NAMED = 12;

/** The command is shown whole: it is what will run. */
function setupLines({ recipe, missing, problems, shared }: SetupPlan, repoRoot: string): string[] {
  const lines: string[] = [];
  const row = (label: string, text: string): void => {
    lines.push(...labelled(label, printable(text)));
  };
  row("from", `${recipe.source} configuration`);
  if (shared !== null) {
    row("", "it comes with the repository: whoever pushes to it can change it");
    row("", SHARED_NEWS[shared]);
  }
  const { files, run } = recipe;
  const left = files.length - MAX_FILES_NAMED;
  if (files.length > 0) {
    row(
      "copies",
      files.slice(0, MAX_FILES_NAMED).join(", ") + (left > 0 ? ` and ${left} more` : ""),
    );
    row("", `from ${repoRoot}; nothing that is there already is overwritten`);
  }
  if (missing.length > 0) row("not there", missing.join(", "));
  for (const problem of problems.slice(0, MAX_FILES_NAMED)) row("not copied", problem);
  if (problems.length > MAX_FILES_NAMED) {
    row("", `and ${problems.length - MAX_FILES_NAMED} more like these`);
  }
  if (run.trim() !== "") {
    const command = run.trimEnd().split("\n");
    command.forEach((line, i) => row(i === 0 ? "runs" : "", line));
    row("", `in the workspace, at most ${recipe.timeoutS} s; a failure is a warning, no more`);
  }
  row("sha256", recipe.sha256);
  return lines;
}

function quoted(description: string): string {
  const line = description.split("\n")[0] ?? "";
  return line === "" ? "(no description)" : `"${line}"`;
}

/** As a shell would take it, so that a space inside an argument is seen. */
function word(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function promptLines(prompt: string | null): string[] {
  if (prompt === null || prompt.trim() === "")
    return labelled("prompt", "none: the agent waits for you");
  const wrapped = prompt
    .replace(/\r\n?/g, "\n")
    .trimEnd()
    .split("\n")
    .flatMap((line) => wrap(printable(line), COLUMNS - LABEL_COLUMNS - 2));
  const shown = wrapped.slice(0, MAX_PROMPT_LINES);
  const left = wrapped.length - shown.length;
  if (left > 0) shown.push(`… and ${left} more ${left === 1 ? "line" : "lines"}`);
  return shown.map((line, i) =>
    `  ${padEnd(i === 0 ? "prompt" : "", LABEL_COLUMNS)}${line}`.trimEnd(),
  );
}

function labelled(label: string, text: string): string[] {
  return wrap(text, COLUMNS - LABEL_COLUMNS - 2).map((line, i) =>
    `  ${padEnd(i === 0 ? label : "", LABEL_COLUMNS)}${line}`.trimEnd(),
  );
}

/** Breaks at spaces; a word longer than the line (a path) stays whole, so that it can be copied. */
function wrap(text: string, columns: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const part of text.split(" ")) {
    const longer = line === "" ? part : `${line} ${part}`;
    if (line !== "" && displayWidth(longer) > columns) {
      lines.push(line);
      line = part;
    } else {
      line = longer;
    }
  }
  lines.push(line);
  return lines;
}

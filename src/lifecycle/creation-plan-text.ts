/** The plan of `kk new` as a person reads and confirms it: plain text, at most 80 columns where the content allows. */
import { short, type CommitId } from "../core/ids.ts";
import { FULL_COLUMNS, PlanLayout, wrap } from "../core/render/plan.ts";
import { printable } from "../core/render/width.ts";
import type { StandingWords } from "./harness-standing.ts";
import type { SetupPlan } from "./setup-plan.ts";

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
  /** `inWorkspace`: why settings are not all outside the workspace; null when they are. */
  standing: StandingWords & { source: "gate" | "quick"; inWorkspace: string | null };
  harnessExecutable: string;
  harnessArgs: readonly string[];
  /** `agent.claude-code.pretrust` */
  pretrust: boolean;
  /** Folders of the repository that the harness's own sandbox lets the agent write. */
  writesOutside: readonly string[];
  prompt: string | null;
  environment: number;
  /** Names of the variables that `[agent] env` adds. */
  configured: readonly string[];
  setup: SetupPlan | null;
}

export function planText(f: PlanTextFacts, columns: number = FULL_COLUMNS): string {
  const plan = new PlanLayout(columns);
  const row = (label: string, text: string): void => plan.row(label, text);
  const title = f.again ? "Make thread" : "New thread";
  plan.text(`${title} "${f.name}"${f.again ? " once more" : ""}`);
  plan.gap();
  if (f.nameTaken !== null) row("name", `"${f.nameTaken}" is taken, so this one is "${f.name}"`);
  if (f.nameMade) row("name", "made by kiki, which may change it later");
  row("repo", f.repoRoot);
  row("follows", f.follows === null ? "no other thread" : `"${f.follows.name}"`);
  if (f.follows !== null) {
    row("", "when it changes, the files here follow and the agent is told");
  }
  row("base", `${short(f.base.commit)} ${quoted(f.base.description)}`);
  row("", f.base.why);

  plan.section("Created");
  row("workspace", f.workspacePath);
  row("", `jj workspace ${f.workspaceName}${f.colocated ? ", usable by git as well" : ""}`);
  row("change", `one empty change on the base, described "${f.name}"`);
  row("bookmark", `${f.bookmark}, on that change`);
  row(
    "session",
    `${f.session}, ${f.tmuxSocket === null ? "default tmux server" : `tmux server ${f.tmuxSocket}`}`,
  );
  row("", f.shellPane === null ? "one pane: the agent" : `two panes: the agent and ${f.shellPane}`);

  if (f.setup !== null) {
    plan.section("Set-up");
    setupRows(plan, f.setup, f.repoRoot);
  }

  plan.section("Agent");
  row("harness", `${f.harness} ${f.harnessVersion}`);
  if (f.standing.source === "quick") {
    row("", "a version kiki was not released with; what it can do was proved on this machine");
  }
  if (f.standing.standing !== "full") {
    row("degraded", f.standing.words);
    for (const reason of f.standing.reasons) row("", reason);
  }
  row("program", f.harnessExecutable);
  row(
    "arguments",
    f.harnessArgs.length === 0 ? "none of yours" : f.harnessArgs.map(word).join(" "),
  );
  const { inWorkspace } = f.standing;
  row(
    "settings",
    inWorkspace ?? "kiki's own hooks, generated outside the workspace; your files are not changed",
  );
  if (inWorkspace !== null) row("", "what is there now is kept and given back afterwards");
  if (f.writesOutside.length > 0) {
    plan.rows("sandbox", [
      ...f.writesOutside,
      "the sandbox of the agent lets commands write there as well as in the workspace: jj does not work " +
        "without. Hooks and settings of git and jj are in there, too",
    ]);
  }
  if (f.pretrust) {
    row("trust", "the workspace is marked as trusted in Claude Code's own state file");
    row("", "as agent.claude-code.pretrust says");
  }
  row("variables", `${f.environment} of your shell's, from a fixed list of names`);
  if (f.configured.length > 0) row("", `set by agent.env: ${f.configured.join(", ")}`);
  promptRows(plan, f.prompt);

  plan.gap();
  plan.text(
    "If a step fails, the steps before it are undone in reverse order and the thread stays listed as " +
      "CreateFailed with the reason. A folder that holds anything you or an agent wrote is kept.",
  );
  return plan.toString();
}

const SHARED_NEWS = {
  new: "you are asked about this recipe for the first time",
  changed: "CHANGED since a recipe of it was last agreed to",
  unchanged: "the same as last agreed to",
};
/** Files that are named one by one; the digest covers all of them. */
const MAX_FILES_NAMED = 12;

/** The command is shown whole: it is what will run. */
function setupRows(
  plan: PlanLayout,
  { recipe, missing, problems, shared }: SetupPlan,
  repoRoot: string,
): void {
  const row = (label: string, text: string): void => plan.row(label, text);
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
}

function quoted(description: string): string {
  const line = description.split("\n")[0] ?? "";
  return line === "" ? "(no description)" : `"${line}"`;
}

/** As a shell would take it, so that a space inside an argument is seen. */
function word(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function promptRows(plan: PlanLayout, prompt: string | null): void {
  if (prompt === null || prompt.trim() === "") {
    return plan.row("prompt", "none: the agent waits for you");
  }
  const wrapped = prompt
    .replace(/\r\n?/g, "\n")
    .trimEnd()
    .split("\n")
    .flatMap((line) => wrap(printable(line), plan.rowColumns));
  const shown = wrapped.slice(0, MAX_PROMPT_LINES);
  const left = wrapped.length - shown.length;
  if (left > 0) shown.push(`… and ${left} more ${left === 1 ? "line" : "lines"}`);
  plan.rows("prompt", shown);
}

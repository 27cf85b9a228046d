/**
 * The one table of configuration keys. Parsing, `kk config`, docs/config.md and completions are driven from it: a key
 * that is not here does not exist. A key whose feature is still to come is declared all the same, and says so.
 */
import type { z } from "zod";
import { LAYERS, type KeySpec, type Layer, type ReloadClass } from "./spec.ts";
import {
  oneOf,
  oneOfOrVariable,
  path,
  text,
  textList,
  truth,
  whole,
  type ValueType,
} from "./types.ts";

type Extra = Partial<Pick<KeySpec, "layers" | "readBy" | "effect" | "planned">>;

const ANY: readonly Layer[] = LAYERS;
/** What one person's terminal and disk look like is not the repository's business. */
const PERSONAL = LAYERS.filter((layer) => layer !== "repo-shared");
/** A rule of the whole repository, not of one of its threads. */
const NOT_PER_THREAD = LAYERS.filter((layer) => layer !== "thread");
const PERSONAL_NOT_PER_THREAD = PERSONAL.filter((layer) => layer !== "thread");
/** Needed before any file can be found. */
const ENVIRONMENT_ONLY: readonly Layer[] = ["default", "env"];

function key<T>(
  type: ValueType<T>,
  value: T | null,
  reload: ReloadClass,
  doc: string,
  extra: Extra = {},
): KeySpec<T> {
  return { ...type, default: value, reload, doc, layers: ANY, readBy: "daemon", ...extra };
}

const PLANNED = { planned: true } as const;
const SCREEN = { layers: PERSONAL, readBy: "command", planned: true } as const;
const PLACE = {
  layers: ENVIRONMENT_ONLY,
  effect: "once every kiki process has been started with it",
} as const;

const loudness = oneOf("loud", "soft", "silent");
function notice(value: "loud" | "soft" | "silent", doc: string): KeySpec<typeof value> {
  return key(loudness, value, "hot", doc, PLANNED);
}

/** Harnesses `agent.harness_args` may name. */
export const HARNESS_NAMES = ["claude-code", "codex"] as const;
/** `<name>` stands for one more word; see lookup.ts. */
export const CONFIG_KEYS = {
  "agent.default_harness": key(
    oneOf(...HARNESS_NAMES),
    "claude-code",
    "lifecycle",
    "Coding agent of `kk new` without `--harness`.",
    { readBy: "command" },
  ),
  "agent.briefing": key(
    truth(),
    true,
    "lifecycle",
    "Tell every agent about its thread, its parent, and what kiki's messages mean.",
  ),
  "agent.harness_args.<name>": key(
    textList(),
    null,
    "lifecycle",
    "Arguments for that harness; `kk new --harness-arg` replaces them.",
  ),
  "agent.env.<NAME>": key(
    text(),
    null,
    "lifecycle",
    "A variable for agent and shell, on top of those taken from the terminal of `kk new`.",
  ),
  "agent.claude-code.pretrust": key(
    truth(),
    false,
    "lifecycle",
    "Answer Claude Code's trust dialog for a thread's workspace, in Claude Code's own state file.",
    // A repository does not answer for whoever works in it.
    { layers: PERSONAL },
  ),
  "agent.codex.boundary": key(
    oneOf("soft", "restart"),
    "soft",
    "lifecycle",
    'How a running Codex agent is brought up to date; "restart" leaves its models as they are.',
  ),
  "agent.codex.auth": key(
    oneOfOrVariable("env:", "copy", "link"),
    "copy",
    "lifecycle",
    "How a Codex agent gets its login: a copy of yours, your own file, or a key from a variable.",
    { layers: PERSONAL },
  ),
  "paths.user_state_dir": key(
    path(),
    null,
    "restart",
    "Folder of everything of kiki's; default `~/.config/kiki`.",
    { ...PLACE, readBy: "command" },
  ),
  "paths.user_state_db": key(
    path(),
    null,
    "restart",
    "Database of the user; default `state.db` in the state folder.",
    { ...PLACE, ...PLANNED },
  ),
  "paths.kkd_socket": key(
    path(),
    null,
    "restart",
    "Socket of the daemon; default `kkd.sock` in the state folder.",
    { ...PLACE, ...PLANNED },
  ),
  "paths.repo_state_dir": key(
    path(),
    null,
    "restart",
    "Folder of the repositories' state; default `repos` in the state folder.",
    { ...PLACE, ...PLANNED },
  ),
  "paths.workspaces_root": key(
    path(),
    null,
    "lifecycle",
    "Folder for new workspaces; default beside the repository.",
    { layers: PERSONAL_NOT_PER_THREAD },
  ),
  "cascade.snapshot": key(
    oneOf("turn-end", "never"),
    "turn-end",
    "hot",
    "When kiki records an agent's edits so that its followers see them.",
    { layers: NOT_PER_THREAD },
  ),
  "cascade.drain_s": key(
    whole(0, 300, "seconds"),
    5,
    "hot",
    "How long a delivery waits for the agent's running tools to end before it lets calls pass.",
    { layers: NOT_PER_THREAD },
  ),
  "cascade.hold_s": key(
    whole(1, 300, "seconds"),
    30,
    "hot",
    "How long an agent's tool call may be held while its files are brought up to date.",
    { layers: NOT_PER_THREAD },
  ),
  "cascade.attempts": key(
    whole(1, 10, "attempts"),
    3,
    "hot",
    "How often a delivery by restart is tried before a person is asked.",
    { layers: NOT_PER_THREAD },
  ),
  "notifications.os_provider": key(
    oneOf("auto", "notify-send", "osascript", "tmux", "off"),
    "auto",
    "hot",
    "What shows notifications.",
    PLANNED,
  ),
  "notifications.permission_prompt": notice("loud", "An agent asks for a permission."),
  "notifications.cascade_conflict": notice("loud", "A parent's move does not fit."),
  "notifications.delivery_exhausted": notice("loud", "An agent could not be told."),
  "notifications.projection_issue": notice("soft", "A workspace, bookmark or session is missing."),
  "notifications.parent_abandoned": notice("soft", "A parent's commit was abandoned."),
  "notifications.hook_outage": notice("soft", "An agent's hook could not reach the daemon."),
  "notifications.goal_complete": notice("silent", "An agent says it is done."),
  "notifications.agent_silent": notice("silent", "An agent has said nothing for long."),
  "notifications.pr_merged": notice("soft", "A pull request was merged."),
  "notifications.pr_check_failed": notice("soft", "A check of a pull request failed."),
  "notifications.remote_diverged": notice("soft", "The remote has what kiki did not publish."),
  "setup.copy": key(
    textList(),
    [],
    "lifecycle",
    "Files copied from the main workspace into each new one; globs are allowed.",
    { layers: NOT_PER_THREAD },
  ),
  "setup.run": key(
    text(),
    "",
    "lifecycle",
    "Command line run in each new workspace before the agent starts.",
    { layers: NOT_PER_THREAD },
  ),
  "setup.timeout_s": key(
    whole(1, 86_400, "seconds"),
    600,
    "lifecycle",
    "How long `setup.run` may take.",
    { layers: NOT_PER_THREAD },
  ),
  "close.disposable": key(
    textList(),
    [],
    "hot",
    "Untracked files `kk close` may delete unasked; globs are allowed.",
    PLANNED,
  ),
  "ui.persistent_sidebar": key(truth(), false, "lifecycle", "A sidebar in every session.", SCREEN),
  "ui.sidebar_width": key(
    whole(10, 200, "columns"),
    32,
    "lifecycle",
    "Width of the sidebar.",
    SCREEN,
  ),
  "ui.sidebar_min_terminal_cols": key(
    whole(20, 1_000, "columns"),
    100,
    "lifecycle",
    "Narrower terminals get no sidebar.",
    SCREEN,
  ),
  "ui.shell_pane": key(truth(), true, "lifecycle", "A shell beside the agent.", {
    layers: PERSONAL,
  }),
  "ui.shell_pane_position": key(
    oneOf("below", "right"),
    "below",
    "lifecycle",
    "Where the shell is.",
    { layers: PERSONAL },
  ),
  "ui.shell_pane_size_pct": key(
    whole(5, 90, "percent"),
    25,
    "lifecycle",
    "The shell's part of the window.",
    { layers: PERSONAL },
  ),
  "ui.shell_pane_min_rows": key(
    whole(5, 1_000, "rows"),
    24,
    "lifecycle",
    "Lower terminals get no shell.",
    { layers: PERSONAL },
  ),
  "ui.mouse_enabled": key(truth(), true, "hot", "The mouse works in kiki's own screens.", SCREEN),
  "ui.toast_ttl_ms": key(
    whole(500, 600_000, "milliseconds"),
    4_000,
    "hot",
    "How long a toast stays.",
    SCREEN,
  ),
  "ui.theme": key(
    oneOf("soft-dark", "soft-light", "high-contrast"),
    "soft-dark",
    "hot",
    "Colours of kiki's own screens.",
    SCREEN,
  ),
  "ui.overlay_min_cols": key(
    whole(20, 1_000, "columns"),
    80,
    "hot",
    "Narrower terminals get text instead of the overlay.",
    { ...SCREEN, effect: "when the overlay is opened next" },
  ),
  "reopen.catchup_pairs": key(
    whole(0, 1_000, "pairs"),
    10,
    "hot",
    "Messages shown to an agent whose thread is reopened.",
    PLANNED,
  ),
  "github.backend": key(oneOf("gh"), "gh", "hot", "What talks to GitHub.", PLANNED),
  "github.poll_s": key(
    whole(10, 86_400, "seconds"),
    60,
    "hot",
    "How often pull requests are looked at.",
    PLANNED,
  ),
  "ai.provider": key(text(), null, "hot", "Who writes drafts.", PLANNED),
  "ai.model": key(text(), null, "hot", "With which model.", PLANNED),
  "ai.base_url": key(text(), null, "hot", "At which address.", PLANNED),
  "ai.api_key_env": key(text(), null, "hot", "Variable that holds the key.", PLANNED),
  "ai.api_key_path": key(path(), null, "hot", "File that holds the key.", PLANNED),
  "autorename.enabled": key(truth(), false, "hot", "kiki renames threads it named.", PLANNED),
  "autorename.cadence": key(
    whole(1, 1_000, "turns"),
    null,
    "hot",
    "After how many turns a name is looked at again.",
    PLANNED,
  ),
  "autorename.idle_ms": key(
    whole(0, 86_400_000, "milliseconds"),
    null,
    "hot",
    "How long an agent must rest first.",
    PLANNED,
  ),
  "autorename.trailer": key(
    truth(),
    false,
    "hot",
    "Mark kiki's texts by a trailer in the description.",
    PLANNED,
  ),
} as const satisfies Record<string, KeySpec<never> | KeySpec>;

export type ConfigKey = keyof typeof CONFIG_KEYS;
/** What the table says a key's value is; null where nothing is set and there is no default. */
export type ConfigValue<K extends ConfigKey> = z.infer<(typeof CONFIG_KEYS)[K]["schema"]>;

/**
 * Esc fires no hook (2.1.332), so that a turn somebody broke off would count as running for ever. The session record
 * gets a line of its own for it, and the pane stops offering "esc to interrupt". Both are for display only.
 */
import { join } from "node:path";
import type { TurnSeen, TurnWitnesses } from "../../../ports/harness.ts";
import { endOfFile, listDir } from "../../files.ts";

/** Requests are recorded whole beside the conversation, some hundred kilobytes each. */
const TAIL_BYTES = 2 * 1024 * 1024;
const INTERRUPTED = /^\[Request interrupted by user/;
/** The line below the composer while a turn runs, and the composer itself, which is no choice in a dialog. */
const WORKING = /\besc to interrupt\b/;
const COMPOSER = /^\s*[❯>](?:\s*$|\s+(?!\d+\.\s))/m;

/**
 * "No conversation found with session ID", exit 1 (2.1.332): it takes up a record of any project's folder. Records of some
 * age are deleted by Claude Code itself (`cleanupPeriodDays`), and one that was just cleared has none before its first prompt.
 */
export function conversationGone(of: { env: Record<string, string>; sessionId: string }): boolean {
  const projects = join(configDirOf(of.env), "projects");
  try {
    return !listDir(projects).some((folder) => {
      try {
        return listDir(join(projects, folder)).includes(`${of.sessionId}.jsonl`);
      } catch (error) {
        // A file beside the folders holds no record.
        if ((error as { code?: unknown }).code === "ENOTDIR") return false;
        throw error;
      }
    });
  } catch {
    return false; // what cannot be looked at proves nothing
  }
}

function configDirOf(env: Record<string, string>): string {
  return env["CLAUDE_CONFIG_DIR"] ?? join(env["HOME"] ?? "/", ".claude");
}

export const CLAUDE_TURNS: TurnWitnesses = {
  recordPath({ env, workspaceRoot, sessionId }) {
    const configDir = configDirOf(env);
    // Everything but letters and digits becomes a dash.
    const folder = workspaceRoot.replace(/[^a-zA-Z0-9]/g, "-");
    return join(configDir, "projects", folder, `${sessionId}.jsonl`);
  },
  inRecord(path) {
    let text: string;
    try {
      text = endOfFile(path, TAIL_BYTES);
    } catch {
      return null;
    }
    // The newest line of the main conversation decides; the lines around it are of other kinds.
    for (const line of text.split("\n").reverse()) {
      const seen = turnIn(line);
      if (seen !== null) return seen;
    }
    return null;
  },
  inPane(paneText) {
    const last = paneText.trimEnd().split("\n").slice(-6).join("\n");
    if (WORKING.test(paneText)) return "working";
    return COMPOSER.test(last) ? "ended" : null;
  },
};

function turnIn(line: string): TurnSeen {
  if (!line.startsWith("{")) return null; // empty, or the rest of one that was cut
  let row: { type?: unknown; isSidechain?: unknown; message?: { content?: unknown } };
  try {
    row = JSON.parse(line) as typeof row;
  } catch {
    return null; // not whole yet
  }
  if (row.isSidechain === true || (row.type !== "user" && row.type !== "assistant")) return null;
  const content = row.message?.content;
  const parts: unknown[] = Array.isArray(content) ? content : [];
  const interrupted = parts.some((part) => {
    const { text } = (part ?? {}) as { text?: unknown };
    return typeof text === "string" && INTERRUPTED.test(text);
  });
  return row.type === "user" && interrupted ? "ended" : "working";
}

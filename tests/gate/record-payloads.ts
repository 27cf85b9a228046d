/**
 * Real hook payloads as fixtures: what a person's machine and the moment put into them is replaced, so that two
 * recordings of one version differ only where Claude Code does.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../../scripts/packages.ts";
import type { RecordedHook } from "../../src/backends/harness/hook-recorder.ts";

type Payload = Record<string, unknown>;

/** File name without `.json`, event, and which payload of that event: the first that satisfies the test. */
const WANTED: readonly [name: string, event: string, which: (p: Payload) => boolean][] = [
  ["SessionStart", "SessionStart", (p) => p["source"] === "startup"],
  ["SessionStart.resume", "SessionStart", (p) => p["source"] === "resume"],
  ["UserPromptSubmit", "UserPromptSubmit", (p) => !isTaskNotification(p)],
  ["UserPromptSubmit.task-notification", "UserPromptSubmit", isTaskNotification],
  ["PreToolUse", "PreToolUse", (p) => p["agent_id"] === undefined],
  ["PreToolUse.subagent", "PreToolUse", (p) => p["agent_id"] !== undefined],
  ["PostToolUse", "PostToolUse", (p) => p["tool_name"] === "Bash"],
  ["PostToolUse.background-agent", "PostToolUse", (p) => p["tool_name"] === "Agent"],
  ["PostToolUseFailure", "PostToolUseFailure", () => true],
  ["PostToolBatch", "PostToolBatch", (p) => calls(p).length > 1],
  [
    "PostToolBatch.denied",
    "PostToolBatch",
    (p) => JSON.stringify(p).includes("hook error: [kiki]"),
  ],
  [
    "PostToolBatch.background-agent",
    "PostToolBatch",
    (p) => calls(p)[0]?.["tool_name"] === "Agent",
  ],
  ["PostToolBatch.subagent", "PostToolBatch", (p) => p["agent_id"] !== undefined],
  ["Notification", "Notification", (p) => p["notification_type"] === "permission_prompt"],
  ["Stop", "Stop", () => true],
  ["SubagentStop", "SubagentStop", () => true],
  ["SessionEnd", "SessionEnd", (p) => p["reason"] !== "clear"],
  ["SessionStart.compact", "SessionStart", (p) => p["source"] === "compact"],
  ["SessionStart.clear", "SessionStart", (p) => p["source"] === "clear"],
  ["SessionEnd.clear", "SessionEnd", (p) => p["reason"] === "clear"],
  ["Notification.idle", "Notification", (p) => p["notification_type"] === "idle_prompt"],
];

function isTaskNotification(p: Payload): boolean {
  return String(p["prompt"]).startsWith("<task-notification>");
}

function calls(p: Payload): Payload[] {
  return Array.isArray(p["tool_calls"]) ? (p["tool_calls"] as Payload[]) : [];
}

/**
 * Writes `fixtures/hooks/claude-code/<version>/*.json` anew from the hooks of a run below `folder`; returns the names
 * written. Throws when one of the wanted payloads was not seen.
 */
export function recordPayloads(
  hooks: readonly RecordedHook[],
  folder: string,
  version: string,
): string[] {
  const target = join(ROOT, "fixtures/hooks/claude-code", version);
  const scrub = scrubber(folder);
  const written = WANTED.map(([name, event, which]) => {
    const hook = hooks.find(({ event: e, payload }) => e === event && which(payload));
    if (hook === undefined) throw new Error(`no ${name} payload was seen`);
    return { name, text: `${scrub(JSON.stringify(hook.payload, null, 2))}\n` };
  });
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  for (const { name, text } of written) writeFileSync(join(target, `${name}.json`), text);
  return written.map(({ name }) => name);
}

/** Folder, ids and durations of this run as fixed ones; equal ids stay equal across payloads. */
function scrubber(folder: string): (text: string) => string {
  const ids = new Map<string, string>();
  const numbered = (id: string, shape: (n: number) => string): string => {
    const known = ids.get(id);
    if (known !== undefined) return known;
    const fresh = shape(ids.size + 1);
    ids.set(id, fresh);
    return fresh;
  };
  const munged = folder.replace(/[^A-Za-z0-9]/g, "-");
  return (text) =>
    text
      .replaceAll(folder, "/home/me")
      .replaceAll(munged, "-home-me")
      .replace(/claude-\d+(?=\/-home-me)/g, "claude-1000")
      .replace(/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, (id) =>
        numbered(id, (n) => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`),
      )
      .replace(/\ba[0-9a-f]{16}\b/g, (id) => numbered(id, (n) => `a${String(n).padStart(16, "0")}`))
      .replace(/("duration_ms"|"seconds_since_last_response"): \d+/g, "$1: 10")
      .replace(/<duration_ms>\d+/g, "<duration_ms>10");
}

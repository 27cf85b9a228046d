/**
 * What the real Codex CLI said and wrote, as fixtures: hook payloads, session record, screens, its answer to
 * `hooks/list` and its model catalog. What the machine and the moment put into them is replaced, so that two
 * recordings of one version differ only where Codex does.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../../../scripts/packages.ts";
import type { RecordedHook } from "../../../src/backends/harness/hook-recorder.ts";

type Json = Record<string, unknown>;

/** File name without `.json`, event, and which payload of that event: the first that satisfies the test. */
const WANTED: readonly [name: string, event: string, which: (p: Json) => boolean][] = [
  ["SessionStart", "SessionStart", (p) => p["source"] === "startup"],
  ["SessionStart.resume", "SessionStart", (p) => p["source"] === "resume"],
  ["SessionStart.compact", "SessionStart", (p) => p["source"] === "compact"],
  ["UserPromptSubmit", "UserPromptSubmit", () => true],
  ["UserPromptSubmit.steer", "UserPromptSubmit", (p) => p["prompt"] === "steer text"],
  ["PreToolUse", "PreToolUse", (p) => p["tool_name"] === "Bash"],
  ["PreToolUse.apply_patch", "PreToolUse", (p) => p["tool_name"] === "apply_patch"],
  ["PostToolUse", "PostToolUse", (p) => p["tool_name"] === "Bash"],
  ["PostToolUse.apply_patch", "PostToolUse", (p) => p["tool_name"] === "apply_patch"],
  ["PreCompact", "PreCompact", () => true],
  ["PostCompact", "PostCompact", () => true],
  ["Interrupt", "Interrupt", () => true],
  ["Stop", "Stop", () => true],
  ["SessionEnd", "SessionEnd", () => true],
];

export interface Recording {
  hooks: readonly RecordedHook[];
  /** Text of the session record. */
  rollout: string;
  /** Screens by name. */
  screens: Readonly<Record<string, string>>;
  hooksList: unknown;
  catalog: string;
  /** Output items the model got, by call id. */
  outputs: Readonly<Record<string, string>>;
}

const CATALOG_MODELS = ["gpt-6.2-sol", "gpt-5.5"];
/** Instructions and tool descriptions are long, and nothing here is about them. */
const LONG = 200;

/** Names of the wanted payloads that were not seen. */
export function missingPayloads(hooks: readonly RecordedHook[]): string[] {
  return WANTED.filter(([, event, which]) => find(hooks, event, which) === undefined).map(
    ([name]) => name,
  );
}

function find(hooks: readonly RecordedHook[], event: string, which: (p: Json) => boolean) {
  return hooks.find(({ event: e, payload }) => e === event && which(payload));
}

/** Writes `fixtures/hooks/codex/<version>` anew; `folder` is the run's own, which no fixture may name. */
export function recordCodex(recording: Recording, folder: string, version: string): string[] {
  const target = join(ROOT, "fixtures/hooks/codex", version);
  const scrub = scrubber(folder);
  const files = new Map<string, string>();
  const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;
  for (const [name, event, which] of WANTED) {
    const hook = find(recording.hooks, event, which);
    if (hook === undefined) throw new Error(`no ${name} payload was seen`);
    files.set(`${name}.json`, scrub(json(hook.payload)));
  }
  files.set("rollout.jsonl", scrub(shortRollout(recording.rollout)));
  files.set("hooks-list.json", scrub(json(recording.hooksList)));
  files.set("outputs.json", scrub(json(recording.outputs)));
  files.set("models.json", json(shortCatalog(recording.catalog)));
  for (const [name, text] of Object.entries(recording.screens)) {
    files.set(`screen-${name}.txt`, `${scrub(text).trimEnd()}\n`);
  }
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  for (const [name, text] of files) writeFileSync(join(target, name), text);
  return [...files.keys()];
}

function shortCatalog(text: string): unknown {
  const { models } = JSON.parse(text) as { models: Json[] };
  const kept = models.filter(({ slug }) => CATALOG_MODELS.includes(String(slug)));
  return { models: kept.map((model) => shortened(model)) };
}

/** Instructions, tools and the state of the world are cut; what was said, called and answered is whole. */
function shortRollout(text: string): string {
  const lines = text.split("\n").filter((line) => line !== "");
  return lines
    .map((line) => {
      const entry = JSON.parse(line) as Json;
      const payload = entry["payload"] as Json;
      const whole =
        entry["type"] === "response_item" &&
        payload["role"] !== "developer" &&
        payload["type"] !== "additional_tools";
      return `${JSON.stringify(whole ? entry : shortened(entry))}\n`;
    })
    .join("");
}

function shortened(value: unknown): unknown {
  if (typeof value === "string") return value.length > LONG ? `${value.slice(0, LONG)}…` : value;
  if (Array.isArray(value)) return value.map(shortened);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, of]) => [key, shortened(of)]));
}

const MOMENT = "2026-12-01T12:00:00.000Z";

/** Folder, ids and times of this run as fixed ones; equal ids stay equal across files. */
function scrubber(folder: string): (text: string) => string {
  const ids = new Map<string, string>();
  const numbered = (id: string): string => {
    const known = ids.get(id);
    if (known !== undefined) return known;
    const fresh = `00000000-0000-7000-8000-${String(ids.size + 1).padStart(12, "0")}`;
    ids.set(id, fresh);
    return fresh;
  };
  return (text) =>
    text
      .replaceAll(folder, "/home/me")
      .replace(/(?<![0-9a-f])[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])/g, numbered)
      .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, MOMENT)
      .replace(/rollout-[\dT-]{19}-/g, "rollout-2026-12-01T12-00-00-")
      .replace(/sessions\/\d{4}\/\d\d\/\d\d/g, "sessions/2026/12/01")
      .replace(
        /("(?:create_time|started_at|completed_at|[a-z_]+_ms|secs|nanos)"): ?[\d.]+/g,
        "$1:1",
      )
      .replace(/"process_id":"\d+"/g, `"process_id":"1"`)
      .replace(/Chunk ID: [0-9a-f]+/g, "Chunk ID: 000000")
      .replace(/Wall time: [\d.]+ seconds/g, "Wall time: 0.1000 seconds")
      .replace(/session ID \d+/g, "session ID 10000")
      .replace(/"session_id\\":\d+/g, `"session_id\\":10000`)
      .replace(/Worked for \d+s • \d\d:\d\d/g, "Worked for 1s • 12:00")
      .replace(/Working \(\d+s/g, "Working (1s");
}

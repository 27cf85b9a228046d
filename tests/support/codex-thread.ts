/** A person's login for Codex, and what a thread whose agent is the scripted codex was told: event log and session record. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "bun:test";
import { findRollout } from "../../fixtures/agents/codex-cli/rollout.ts";
import { moments, type Moment } from "./scenario.ts";
import { newThread, resultOf, type Follower, type Home, type Thread } from "./family.ts";
import { waitFor } from "./wait.ts";
import type { World } from "./world.ts";

/** Codex shows its login screen without one. */
export function codexLogin(w: World): void {
  const own = join(w.env["HOME"]!, ".codex");
  mkdirSync(own, { recursive: true });
  writeFileSync(join(own, "auth.json"), '{"OPENAI_API_KEY":"sk-none"}\n');
}

export async function newCodex(
  home: Home,
  name: string,
  scenario: { responses: readonly unknown[]; resumed?: readonly unknown[] },
  args: readonly string[] = [],
): Promise<Follower> {
  const log = join(home.w.dir, `${name}.ndjson`);
  const prompt = home.w.scenario(name, { log, ...scenario });
  const thread = await newThread(home, name, ["--harness", "codex", ...args, "-m", prompt]);
  return { ...thread, log };
}

/** Outputs of calls in the thread's newest session record, as the model got them, by call id. */
export function recordedOutputs(home: Home, of: Thread): Map<string, string> {
  const path = findRollout(join(home.state, "harness", of.id, "codex-home"), undefined);
  const outputs = new Map<string, string>();
  for (const line of readFileSync(path!, "utf8")
    .split("\n")
    .filter((text) => text !== "")) {
    const { payload } = JSON.parse(line) as { payload: Record<string, unknown> };
    if (typeof payload["call_id"] === "string" && typeof payload["output"] === "string")
      outputs.set(payload["call_id"], payload["output"]);
  }
  return outputs;
}

/** The refusal of a command line or a patch, as this version hands it on. */
export const refusal = (payload: string, command: string): string =>
  `Command blocked by PreToolUse hook: ${payload}. Command: ${command}`;

/** The call was refused with exactly this payload, by event log and session record, and never ran. */
export function expectRefused(
  home: Home,
  of: Follower,
  id: string,
  payload: string,
  command: string,
): void {
  const own = moments(of.log).filter((m) => m.tool_use_id === id);
  expect({ id, ran: own.some((m) => m.kind === "tool_start") }).toEqual({ id, ran: false });
  expect(resultOf(own, id)).toBe(refusal(payload, command));
  expect(recordedOutputs(home, of).get(id)).toBe(refusal(payload, command));
}

/** When a call ran, by the agent's own clock; null while it has not ended. */
export function ranFrom(all: readonly Moment[], id: string): { from: number; to: number } | null {
  const at = (kind: string) => all.find((m) => m.kind === kind && m.tool_use_id === id)?.t;
  const [from, to] = [at("tool_start"), at("tool_end")];
  return from === undefined || to === undefined ? null : { from, to };
}

/** Typed by the person into the agent's pane. */
export async function typeInto({ w }: Home, of: Thread, ...keys: readonly string[]): Promise<void> {
  const panes = w.tmux.ok("list-panes", "-a", "-F", "#{pane_id} #{@kiki_role} #{@kiki_thread}");
  const pane = panes.split("\n").find((line) => line.endsWith(` agent ${of.id}`))!;
  w.tmux.ok("send-keys", "-t", pane.split(" ")[0]!, ...keys);
}

/** A prompt and Enter, once the pane shows all of it. */
export async function prompt(home: Home, of: Thread, text: string): Promise<void> {
  const { w } = home;
  await typeInto(home, of, "-l", text);
  const panes = w.tmux.ok("list-panes", "-a", "-F", "#{pane_id} #{@kiki_role} #{@kiki_thread}");
  const pane = panes
    .split("\n")
    .find((line) => line.endsWith(` agent ${of.id}`))!
    .split(" ")[0]!;
  await waitFor(
    () => w.tmux.ok("capture-pane", "-p", "-J", "-t", pane).includes(text),
    30_000,
    "what was typed",
  );
  await typeInto(home, of, "Enter");
}

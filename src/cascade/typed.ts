/**
 * What a person types while an intent is owed to their agent. A restart ends the process that has it, so it is kept,
 * and follows the payload in the first input of the replacement.
 */
import { threadPaths } from "../core/paths.ts";
import { MAX_INPUT_BYTES, STARTUP_FRAME_BYTES } from "../core/payload.ts";
import type { CascadeDeps } from "./deps.ts";

type Deps = Pick<CascadeDeps, "files" | "stateDir" | "repoId">;

/** Messages kept of an agent that goes on talking without a call; those before them are in its conversation. */
const MAX_KEPT = 32;

/** Whole, whatever their length. One that is reported twice (its hook gave up waiting, and spooled it) is one. */
export function keepTyped(deps: Deps, threadId: string, text: string): void {
  const before = typedMeanwhile(deps, threadId);
  if (before.at(-1) === text) return;
  const { typed, typedText } = threadPaths(deps.stateDir, deps.repoId, threadId);
  // Of a delivery before: whoever was to read it has had the time.
  if (before.length === 0) deps.files.removeDurable(typedText);
  deps.files.writeDurable(typed, JSON.stringify([...before, text].slice(-MAX_KEPT)), 0o600);
}

/** Oldest first; empty when there is nothing, or nothing that can be read. */
function typedMeanwhile(deps: Deps, threadId: string): string[] {
  const { typed } = threadPaths(deps.stateDir, deps.repoId, threadId);
  try {
    const kept = JSON.parse(deps.files.readText(typed) ?? "[]") as unknown;
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

/**
 * As it goes into the input of a replacement, beside this payload: the newest messages that a program can be started with,
 * each whole; where that is not all, all of them are in a file, and the last line says which.
 */
export function typedForInput(deps: Deps, threadId: string, payload: string): string[] {
  const kept = typedMeanwhile(deps, threadId).map(startable);
  const { typedText } = threadPaths(deps.stateDir, deps.repoId, threadId);
  const pointer =
    "(Not everything that was typed has room here. Before you go on, read all of it, oldest first, " +
    `in the file ${typedText})`;
  let room = MAX_INPUT_BYTES - STARTUP_FRAME_BYTES - bytes(payload) - bytes(pointer);
  const inline: string[] = [];
  for (const text of kept.toReversed()) {
    room -= bytes(text) + 2;
    if (room < 0) break;
    inline.unshift(text);
  }
  if (inline.length === kept.length) return inline;
  deps.files.writeDurable(typedText, `${kept.join("\n\n----\n\n")}\n`, 0o600);
  return [...inline, pointer];
}

/** The agent has shown that it knows: what it is told next it is told by the person. It may yet have to read the file. */
export function forgetTyped(deps: Deps, threadId: string): void {
  const { typed } = threadPaths(deps.stateDir, deps.repoId, threadId);
  if (deps.files.readText(typed) !== null) deps.files.removeDurable(typed);
}

/** No argument of a program can hold a NUL, and half a surrogate pair has no bytes. */
function startable(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\u{2400}");
}

function bytes(text: string): number {
  return Buffer.byteLength(text);
}

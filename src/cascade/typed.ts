/**
 * What a person types while an intent is owed to their agent. A restart ends the process that has it, so it is kept,
 * and follows the payload in the first input of the replacement.
 */
import { threadPaths } from "../core/paths.ts";
import type { CascadeDeps } from "./deps.ts";

type Deps = Pick<CascadeDeps, "files" | "stateDir" | "repoId">;

/** An argument of a program has at most 128 KiB on Linux, and the payload comes first. */
const MAX_TYPED = 64 * 1024;

export function keepTyped(deps: Deps, threadId: string, text: string): void {
  const kept = [...typedMeanwhile(deps, threadId), text];
  while (kept.length > 1 && kept.join("").length > MAX_TYPED) kept.shift();
  const { typed } = threadPaths(deps.stateDir, deps.repoId, threadId);
  deps.files.writeDurable(typed, JSON.stringify(kept.map((one) => one.slice(0, MAX_TYPED))), 0o600);
}

/** Oldest first; empty when there is nothing, or nothing that can be read. */
export function typedMeanwhile(deps: Deps, threadId: string): string[] {
  const { typed } = threadPaths(deps.stateDir, deps.repoId, threadId);
  try {
    const kept = JSON.parse(deps.files.readText(typed) ?? "[]") as unknown;
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

/** The agent has shown that it knows: what it is told next it is told by the person. */
export function forgetTyped(deps: Deps, threadId: string): void {
  const { typed } = threadPaths(deps.stateDir, deps.repoId, threadId);
  if (deps.files.readText(typed) !== null) deps.files.removeDurable(typed);
}

/**
 * What a person types while an intent is owed to their agent. A restart ends the process that has it, so it is kept,
 * and follows the payload in the first input of the replacement.
 */
import { z } from "zod";
import { threadPaths } from "../core/paths.ts";
import { MAX_INPUT_BYTES, STARTUP_FRAME_BYTES } from "../core/payload.ts";
import { hasCallOf } from "../store/admissions.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";

type Deps = Pick<CascadeDeps, "files" | "stateDir" | "repoId">;

const Kept = z.object({
  text: z.string(),
  /** Whom it was typed to. */
  incarnation: z.string(),
  promptId: z.string().nullable(),
  /** Its turn has come to an end. */
  taken: z.boolean(),
  /**
   * Something else was sent to the same agent before its turn had come to an end or a call was seen of it: the person
   * pressed Esc, and may have taken it back.
   */
  brokenOff: z.boolean(),
});
type Kept = z.infer<typeof Kept>;

const BROKEN_OFF =
  "(The person sent something else before kiki had seen an answer to this; what follows may be meant in its place.)";

/** Messages kept of an agent that goes on talking without a call; those before them are in its conversation. */
const MAX_KEPT = 32;

/**
 * Whole, whatever their length. The same words again are one: reported twice (their hook gave up waiting, and spooled
 * them), or taken back and sent once more.
 */
export function keepTyped(
  deps: Deps & Pick<CascadeDeps, "db">,
  { threadId, incarnation }: HookCaller,
  { text, promptId }: Pick<Kept, "text" | "promptId">,
): void {
  const before = typedMeanwhile(deps, threadId);
  const last = before.at(-1);
  const now = { text, incarnation, promptId, taken: false, brokenOff: false };
  if (last?.text === text) {
    if (last.promptId !== promptId) write(deps, threadId, [...before.slice(0, -1), now]);
    return;
  }
  // Of a delivery before: whoever was to read it has had the time.
  if (last === undefined)
    deps.files.removeDurable(threadPaths(deps.stateDir, deps.repoId, threadId).typedText);
  else if (last.incarnation === incarnation && last.promptId !== promptId && !last.taken)
    last.brokenOff = last.promptId !== null && !hasCallOf(deps.db, incarnation, last.promptId);
  write(deps, threadId, [...before, now].slice(-MAX_KEPT));
}

/** A turn came to its end; what was typed in it is in the conversation. */
export function typedWasTaken(deps: Deps, threadId: string, promptId: string): void {
  const kept = typedMeanwhile(deps, threadId);
  const now = kept.map((one) => (one.promptId === promptId ? { ...one, taken: true } : one));
  if (now.some((one, i) => one.taken !== kept[i]!.taken)) write(deps, threadId, now);
}

function write(deps: Deps, threadId: string, kept: readonly Kept[]): void {
  const { typed } = threadPaths(deps.stateDir, deps.repoId, threadId);
  deps.files.writeDurable(typed, JSON.stringify(kept), 0o600);
}

/** Oldest first; empty when there is nothing, or nothing that can be read. */
function typedMeanwhile(deps: Deps, threadId: string): Kept[] {
  const { typed } = threadPaths(deps.stateDir, deps.repoId, threadId);
  try {
    const found = z.array(z.unknown()).parse(JSON.parse(deps.files.readText(typed) ?? "[]"));
    return found.flatMap((one) => {
      // A daemon before this one kept the words alone.
      const kept = typeof one === "string" ? { ...UNKNOWN, text: one } : Kept.safeParse(one).data;
      return kept === undefined ? [] : [kept];
    });
  } catch {
    return [];
  }
}

const UNKNOWN = { incarnation: "", promptId: null, taken: true, brokenOff: false };

/**
 * As it goes into the input of a replacement, beside this payload: the newest messages that a program can be started with,
 * each whole; where that is not all, all of them are in a file, and the last line says which.
 */
export function typedForInput(deps: Deps, threadId: string, payload: string): string[] {
  const kept = typedMeanwhile(deps, threadId).map(({ text, brokenOff }) =>
    startable(brokenOff ? `${text}\n\n${BROKEN_OFF}` : text),
  );
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

/** Words of sh in which a hook or a command stands still until something is so, each with an end of its own. */
import { shellQuote } from "../../src/backends/harness/launcher.ts";

/** Longer than anything that is waited for; nothing of a run may outlive it for good. */
const LONGEST_S = 120;

const until = (condition: string, seconds: number): string =>
  `n=0; until ${condition} || [ $n -ge ${seconds * 10} ]; do sleep 0.1; n=$((n + 1)); done`;

/** Until that file is there. */
export const untilThere = (file: string): string => until(`[ -e ${shellQuote(file)} ]`, LONGEST_S);

/**
 * For a hook of `HookRecorder.before`: until so many calls' hooks have come or, when they come one by one, eight seconds
 * have passed.
 */
export const heldUntil = (count: number): string =>
  `: >"$at/held"; ${until(`[ "$(ls "$at"/../*/held | wc -l)" -ge ${count} ]`, 8)}`;

/** Gives the tool three seconds to run too early; where that is what has to be seen, all the time it needs. */
export const lookAt = (file: string, expected: boolean): string =>
  until(`[ -e ${shellQuote(file)} ]`, expected ? LONGEST_S : 3);

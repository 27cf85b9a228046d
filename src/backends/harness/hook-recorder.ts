/**
 * Stands where kk-hook stands while a harness is looked at: keeps every payload as it came, in order, and passes or,
 * when told to, denies, or does whatever a proof wants of it. The quick proofs and the release gate use the same one;
 * it is also how payloads get into fixtures/hooks.
 */
import { join } from "node:path";
import { ensureDir, listDir, readText, removeDurable, writeDurable } from "../files.ts";
import { shellQuote } from "./launcher.ts";

export interface RecordedHook {
  /** Folder of what was kept of it; what `before` finds as `$at`. */
  at: string;
  event: string;
  payload: Record<string, unknown>;
  /** When it began and, unless it is still running or was killed, ended; milliseconds since the epoch. */
  from: number;
  to: number | null;
}

export interface HookRecorder {
  readonly executable: string;
  /** Payloads so far, oldest first. */
  hooks(event?: string): RecordedHook[];
  /** Variables the hook process saw, `NAME=value`, of the first hook. */
  environment(): string[];
  /** From now on every PreToolUse is answered with these bytes; null: passed. */
  denyWith(output: string | null): void;
  /**
   * sh that every hook of that event, PreToolUse unless told otherwise, runs once its payload is kept (as `$at/payload`),
   * before the verdict; null: nothing.
   */
  before(script: string | null, event?: string): void;
}

/** `dir`: absolute. */
export function makeHookRecorder(dir: string): HookRecorder {
  const folder = join(dir, "hooks");
  ensureDir(folder);
  const executable = join(dir, "kk-hook");
  const verdict = join(dir, "verdict");
  const before = join(dir, "before");
  const [hooks, answer, first] = [shellQuote(folder), shellQuote(verdict), shellQuote(before)];
  // mkdir is the counter: it succeeds for exactly one of several hooks that run at once.
  const script = `#!/bin/sh
n=1000
while ! mkdir ${hooks}/$n 2>/dev/null; do n=$((n + 1)); done
at=${hooks}/$n
date +%s%N >"$at/from"
printf '%s' "$1" >"$at/event"
[ $n = 1000 ] && env >"$at/env"
cat >"$at/.payload" && mv "$at/.payload" "$at/payload"
if [ -e ${first}-"$1" ]; then . ${first}-"$1"; fi
date +%s%N >"$at/.to" && mv "$at/.to" "$at/to"
if [ "$1" = PreToolUse ] && [ -e ${answer} ]; then
  cat ${answer}
  exit 11
fi
exit 10
`;
  writeDurable(executable, script, 0o700);
  const place = (path: string, text: string | null): void => {
    if (text === null) removeDurable(path);
    else writeDurable(path, text, 0o600);
  };
  return {
    executable,
    hooks(event) {
      return listDir(folder).flatMap((name) => {
        const at = (file: string): string | null => readText(join(folder, name, file));
        const [found, payload] = [at("event") ?? "", at("payload")];
        if (payload === null || (event !== undefined && found !== event)) return [];
        return [
          {
            at: join(folder, name),
            event: found,
            payload: JSON.parse(payload) as Record<string, unknown>,
            from: milliseconds(at("from")) ?? 0,
            to: milliseconds(at("to")),
          },
        ];
      });
    },
    environment: () => (readText(join(folder, "1000", "env")) ?? "").split("\n"),
    denyWith: (output) => place(verdict, output),
    before: (text, event = "PreToolUse") =>
      place(`${before}-${event}`, text === null ? null : `${text}\n`),
  };
}

/** Of the nanoseconds that `date` wrote. */
function milliseconds(text: string | null): number | null {
  return text === null ? null : Number(text) / 1e6;
}

/**
 * Stands where kk-hook stands: keeps every hook payload as it came, in order, and passes or, when told to, denies, or
 * does whatever a proof wants of it. It lets the launch flags be proved without a daemon, and it is how payloads get
 * into fixtures/hooks.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface RecordedHook {
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
  /** sh that every PreToolUse runs once its payload is kept, before the verdict; null: nothing. */
  before(script: string | null): void;
}

export function makeHookRecorder(dir: string): HookRecorder {
  const folder = join(dir, "hooks");
  mkdirSync(folder, { recursive: true });
  const executable = join(dir, "kk-hook");
  const verdict = join(dir, "verdict");
  const before = join(dir, "before");
  // mkdir is the counter: it succeeds for exactly one of several hooks that run at once.
  const script = `#!/bin/sh
n=1000
while ! mkdir '${folder}'/$n 2>/dev/null; do n=$((n + 1)); done
at='${folder}'/$n
date +%s%N >"$at/from"
printf '%s' "$1" >"$at/event"
[ $n = 1000 ] && env >"$at/env"
cat >"$at/.payload" && mv "$at/.payload" "$at/payload"
if [ "$1" = PreToolUse ] && [ -e '${before}' ]; then . '${before}'; fi
date +%s%N >"$at/.to" && mv "$at/.to" "$at/to"
if [ "$1" = PreToolUse ] && [ -e '${verdict}' ]; then
  cat '${verdict}'
  exit 11
fi
exit 10
`;
  writeFileSync(executable, script, { mode: 0o700 });
  return {
    executable,
    hooks(event) {
      return readdirSync(folder)
        .sort()
        .filter((name) => existsSync(join(folder, name, "payload")))
        .map((name) => ({
          event: readFileSync(join(folder, name, "event"), "utf8"),
          payload: JSON.parse(readFileSync(join(folder, name, "payload"), "utf8")) as Record<
            string,
            unknown
          >,
          from: time(join(folder, name, "from"))!,
          to: time(join(folder, name, "to")),
        }))
        .filter((hook) => event === undefined || hook.event === event);
    },
    environment: () => readFileSync(join(folder, "1000", "env"), "utf8").split("\n"),
    denyWith(output) {
      if (output === null) rmSync(verdict, { force: true });
      else writeFileSync(verdict, output);
    },
    before(text) {
      if (text === null) rmSync(before, { force: true });
      else writeFileSync(before, `${text}\n`);
    },
  };
}

/** A file's nanoseconds as milliseconds. */
function time(file: string): number | null {
  return existsSync(file) ? Number(readFileSync(file, "utf8")) / 1e6 : null;
}

/** Waiting for a condition with a deadline, so that no test sleeps for "long enough". */
import { existsSync, readFileSync } from "node:fs";

const POLL_MS = 20;

/**
 * Polls `probe` until it returns something other than `undefined`, `null` or `false`, and returns that. A throw
 * counts as "not yet"; after `ms` the error names `what` and the last thing that was wrong.
 */
export async function waitFor<T>(
  probe: () => T | undefined | null | false | Promise<T | undefined | null | false>,
  ms: number,
  what: string | (() => string),
): Promise<T> {
  const deadline = performance.now() + ms;
  for (;;) {
    let last: unknown;
    try {
      const value = await probe();
      if (value !== undefined && value !== null && value !== false) return value;
      last = value;
    } catch (error) {
      last = error;
    }
    if (performance.now() >= deadline) {
      const detail = last instanceof Error ? `: ${last.message}` : "";
      throw new Error(
        `after ${ms} ms still not: ${typeof what === "string" ? what : what()}${detail}`,
      );
    }
    await Bun.sleep(POLL_MS);
  }
}

/** Waits until another program has written `text` to the file, and nothing else: a file is there before it has bytes. */
export async function waitForContent(path: string, text: string, ms: number): Promise<void> {
  const seen = () => (existsSync(path) ? readFileSync(path, "utf8") : null);
  await waitFor(
    () => seen() === text,
    ms,
    () => `${JSON.stringify(text)} in ${path}, which has ${JSON.stringify(seen())}`,
  );
}

/**
 * Waits until no process has `text` in its command line. Whoever was sent a SIGKILL is there until the system is done with
 * it, and nobody who sends one waits for that.
 */
export async function waitForNoProcess(text: string, ms = 5_000): Promise<void> {
  const running = (): string => Bun.spawnSync(["pgrep", "-f", text]).stdout.toString();
  await waitFor(
    () => running() === "",
    ms,
    () => `no process with ${text}: ${running()}`,
  );
}

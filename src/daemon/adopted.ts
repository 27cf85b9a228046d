/** Waiting until the daemon is nobody's descendant: what runs below a pane may be stopped by kiki itself. */

/** Set by `kk __start-daemon` to its own pid. */
export const STARTER_PID = "KIKI_STARTER_PID";
const POLL_MS = 5;

/**
 * Resolves once the process that started this one has ended, true; or false after `limitMs`, when the starter hangs.
 * Without KIKI_STARTER_PID (started by a service manager, or by hand) there is nothing to wait for.
 */
export async function adopted(
  env: Record<string, string | undefined>,
  limitMs: number,
  parent: () => number = () => process.ppid,
): Promise<boolean> {
  const starter = Number(env[STARTER_PID] ?? "");
  if (!(starter > 1)) return true;
  const deadline = performance.now() + limitMs;
  while (parent() === starter) {
    if (performance.now() >= deadline) return false;
    await Bun.sleep(POLL_MS);
  }
  return true;
}

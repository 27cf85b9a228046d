/**
 * The few programs a command runs itself: tmux taking over the person's terminal, and questions about the person's
 * own tools that only their own environment can answer. Everything else is the daemon's.
 */

/** Runs a program on this terminal and waits; its exit code, 127 when it cannot be started. */
export function runOnTerminal(argv: readonly string[]): number {
  try {
    const child = Bun.spawnSync([...argv], { stdio: ["inherit", "inherit", "inherit"] });
    return child.exitCode ?? 1;
  } catch {
    return 127;
  }
}

export interface Said {
  code: number;
  stdout: string;
  stderr: string;
}

/** A version or display query takes milliseconds; a tmux server of another version may never answer. */
const QUERY_TIMEOUT_MS = 3000;

/** What a short query prints; null when the program is missing or does not answer in time. */
export function ask(argv: readonly string[], timeoutMs = QUERY_TIMEOUT_MS): Said | null {
  try {
    const child = Bun.spawnSync([...argv], {
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      timeout: timeoutMs,
      killSignal: "SIGKILL",
    });
    if (child.exitCode === null || child.signalCode !== undefined) return null;
    const { stdout, stderr } = child;
    return { code: child.exitCode, stdout: stdout.toString(), stderr: stderr.toString() };
  } catch {
    return null;
  }
}

/** A person at a terminal: reads what a program shows and answers its question. */
import { waitFor } from "./wait.ts";

export interface TerminalResult {
  code: number;
  /** Everything the terminal showed, escape sequences removed. */
  screen: string;
}

/** A question is on the screen when its last line ends like one. */
const QUESTION = /\[y\/N\]:?\s*$/;
const TERMINAL_DEADLINE_MS = 180_000;

/**
 * Runs a program on a terminal of its own, in its foreground, and answers each of its questions with `answer` and Enter:
 * a program that is told no does not ask again.
 */
export async function onTerminal(
  env: Record<string, string>,
  argv: readonly string[],
  answer: string,
  cwd: string,
  cols = 100,
): Promise<TerminalResult> {
  let screen = "";
  let answered = 0;
  const decoder = new TextDecoder();
  const child = Bun.spawn([...argv], {
    cwd,
    env,
    terminal: {
      cols,
      rows: 40,
      data(terminal, data) {
        screen += decoder.decode(data, { stream: true });
        const asked = screen.split("[y/N]").length - 1;
        if (asked === answered || !QUESTION.test(plain(screen))) return;
        answered = asked;
        terminal.write(`${answer}\n`);
      },
    },
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), TERMINAL_DEADLINE_MS);
  const code = await child.exited;
  clearTimeout(timer);
  // What the terminal still has in its buffer arrives after the exit.
  await waitFor(
    () => child.terminal?.closed !== false || screen !== "",
    1_000,
    "terminal output",
  ).catch(() => undefined);
  child.terminal?.close();
  return { code, screen: plain(screen) };
}

function plain(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, "").replace(/\r\n/g, "\n");
}

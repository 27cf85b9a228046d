/** Processes that exist because a test says so. */
import type { ProcessIdentity, Processes } from "../../src/ports/processes.ts";

export class FakeProcesses implements Processes {
  readonly #alive = new Map<number, ProcessIdentity & { argument: string }>();
  #nextPid = 1000;

  start(argument = ""): ProcessIdentity {
    this.#nextPid += 1;
    const process = { pid: this.#nextPid, startTime: String(this.#nextPid * 7), argument };
    this.#alive.set(process.pid, process);
    return { pid: process.pid, startTime: process.startTime };
  }

  /** A process the test did not start, for example its own. */
  add(pid: number): void {
    this.#alive.set(pid, { pid, startTime: String(pid), argument: "" });
  }

  end(pid: number): void {
    this.#alive.delete(pid);
  }

  identify(pid: number): ProcessIdentity | null {
    const found = this.#alive.get(pid);
    return found === undefined ? null : { pid, startTime: found.startTime };
  }

  parentOf(): number | null {
    return null;
  }

  withArgument(text: string): ProcessIdentity[] {
    return [...this.#alive.values()]
      .filter((p) => p.argument.includes(text))
      .map(({ pid, startTime }) => ({ pid, startTime }));
  }
}

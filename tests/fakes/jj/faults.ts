/** What goes wrong with jj commands on demand: slow, stuck behind a lock, failed before or after their effect. */
import { fail } from "../../../src/core/errors.ts";
import type { JjRepo } from "../../../src/ports/jj.ts";

/** Methods of the port that can fail. */
export type JjMethod = {
  [K in keyof JjRepo]: JjRepo[K] extends (...args: never[]) => unknown ? K : never;
}[keyof JjRepo];

interface Failure {
  method: JjMethod;
  error: Error;
  when: "before" | "after";
}

interface Lock {
  /** null: the op-heads lock of the repository; else the working-copy lock of that workspace's folder. */
  root: string | null;
  mode: "wait" | "fail";
  released: Promise<void>;
}

export class JjFaults {
  /** Awaited before every command, reads included: a slow jj. */
  delay: ((method: JjMethod) => Promise<void> | undefined) | null = null;
  readonly #failures: Failure[] = [];
  readonly #locks = new Set<Lock>();

  /** The next call of `method` fails: "before" its effect, or "after" it, so that only the answer is lost. */
  failNext(method: JjMethod, error: Error, when: "before" | "after"): void {
    this.#failures.push({ method, error, when });
  }

  /**
   * Somebody holds a lock until the returned function is called. `wait`: commands that need it hang; `fail`: they end
   * with `jj-locked`, as after their bounded tries. `root` null is the op-heads lock, else a workspace's own.
   */
  lock(root: string | null, mode: "wait" | "fail"): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    const lock: Lock = { root, mode, released: promise };
    this.#locks.add(lock);
    return () => {
      this.#locks.delete(lock);
      resolve();
    };
  }

  isHeld(root: string): boolean {
    return [...this.#locks].some((lock) => lock.root === root);
  }

  /** Runs a pure read. */
  async read<T>(method: JjMethod, body: () => T): Promise<T> {
    return this.#run(method, body);
  }

  /** Runs a mutation that needs the op-heads lock and, with `root`, that workspace's lock. */
  async mutate<T>(method: JjMethod, root: string | null, body: () => T): Promise<T> {
    for (const lock of this.#locks) {
      if (lock.root !== null && lock.root !== root) continue;
      if (lock.mode === "fail")
        throw fail("failed", "jj-locked", `jj could not ${method}: a lock is held`);
      await lock.released;
    }
    return this.#run(method, body);
  }

  async #run<T>(method: JjMethod, body: () => T): Promise<T> {
    const delay = this.delay?.(method);
    if (delay !== undefined) await delay;
    const at = this.#failures.findIndex((failure) => failure.method === method);
    const [failure] = at < 0 ? [] : this.#failures.splice(at, 1);
    if (failure?.when === "before") throw failure.error;
    const result = body();
    if (failure !== undefined) throw failure.error;
    return result;
  }
}

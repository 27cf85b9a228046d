/** Per-key serial execution: work of one thread never interleaves, work of different threads never waits. */

export class SerialQueues {
  readonly #tails = new Map<string, Promise<unknown>>();

  /** Runs `work` after everything queued earlier under `key`; a failure reaches only its own caller. */
  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve();
    const result = before.then(work, work);
    const tail = result.then(
      () => undefined,
      () => undefined,
    );
    this.#tails.set(key, tail);
    void tail.then(() => {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    });
    return result;
  }

  /** Resolves when nothing is queued any more. */
  async idle(): Promise<void> {
    while (this.#tails.size > 0) await Promise.all(this.#tails.values());
  }
}

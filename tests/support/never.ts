/**
 * A promise that settles never, each time another one: whatever waits for a promise is kept alive by it, so one that is
 * shared keeps everything that ever waited.
 */
export function never(): Promise<never> {
  return new Promise<never>(() => undefined);
}

/** Holds a flock(2) lock, as jj does, from a process of its own. */

export interface HeldLock {
  release(): Promise<void>;
}

/** Makes the file when needed and resolves once the lock is held. `flock` is util-linux's. */
export async function holdLock(file: string): Promise<HeldLock> {
  // cat ends, and with it the lock, when its standard input closes.
  const child = Bun.spawn(["flock", file, "sh", "-c", "echo held; exec cat"], {
    stdin: "pipe",
    stdout: "pipe",
  });
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  if (new TextDecoder().decode(value).trim() !== "held")
    throw new Error(`${file} could not be locked`);
  reader.releaseLock();
  return {
    async release() {
      void child.stdin.end();
      await child.exited;
    },
  };
}

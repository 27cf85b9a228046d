/**
 * A program that finds a folder of the gate's at a place of the machine's: a mount namespace of its own, so that nobody
 * else sees it and it is gone with the program. Where mounting is not allowed, this throws and says so.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";

/** Puts the words that make the mounts in front of a command line. */
export type Wrap = (argv: readonly string[]) => string[];

/** `mounts`: pairs of a folder and the absolute path at which the program finds it, which need not exist. */
export async function inOwnMounts<T>(
  mounts: readonly (readonly [from: string, to: string])[],
  use: (wrap: Wrap) => Promise<T>,
): Promise<T> {
  const lines = mounts.map(([from, to]) => mountLine(from, to));
  const script = `${lines.join(" && ")} && exec "$@"`;
  const probe = Bun.spawnSync(["unshare", "--mount", "--", "/bin/sh", "-c", script, "sh", "true"]);
  if (probe.exitCode !== 0)
    throw new Error(`a private mount is not allowed here: ${probe.stderr.toString().trim()}`);
  return use((argv) => ["unshare", "--mount", "--", "/bin/sh", "-c", script, "sh", ...argv]);
}

/** A place that does not exist is made in a copy of its parent that only the namespace has. */
function mountLine(from: string, to: string): string {
  if (existsSync(to)) return `mount --bind '${from}' '${to}'`;
  const parent = join(to, "..");
  const name = to.slice(parent.length + 1);
  // An overlay's upper folder may not lie on an overlay itself, so both are on a tmpfs of their own.
  return [
    `mount -t tmpfs none /mnt`,
    `mkdir -p /mnt/upper/'${name}' /mnt/work`,
    `mount -t overlay none -o lowerdir='${parent}',upperdir=/mnt/upper,workdir=/mnt/work '${parent}'`,
    `mount --bind '${from}' '${to}'`,
  ].join(" && ");
}

/** When a client replaces the daemon it found. */

export interface Program {
  version: string;
  build: string;
}

/**
 * `older` → graceful replacement. A newer daemon serves older clients, so everything else is kept.
 *
 * Two builds of one version may disagree about the protocol, so a client whose own file was installed after the
 * daemon started replaces it. After that the daemon is younger than either file: two builds used side by side
 * replace each other at most once, never back and forth. Times: integer milliseconds.
 */
export function daemonIs(
  daemon: Program & { startedAt: number },
  client: Program & { installedAt: number | null; now: number },
): "older" | "kept" {
  const order = compareVersions(daemon.version, client.version);
  if (order !== 0) return order < 0 ? "older" : "kept";
  // Sources ("dev") say nothing about their age.
  const builds = [daemon.build, client.build];
  if (builds[0] === builds[1] || builds.includes("dev") || client.installedAt === null)
    return "kept";
  // A file from the future (a clock set back) would count as newer than every daemon, for ever.
  const installedAfterStart =
    client.installedAt > daemon.startedAt && client.installedAt <= client.now;
  return installedAfterStart ? "older" : "kept";
}

/** Negative when `a` is older. What is not `x.y.z` (`dev`) compares equal to everything: never replaced by order. */
export function compareVersions(a: string, b: string): number {
  const left = parse(a);
  const right = parse(b);
  if (left === null || right === null) return 0;
  for (let i = 0; i < 3; i += 1) {
    const difference = left.numbers[i]! - right.numbers[i]!;
    if (difference !== 0) return difference;
  }
  // Semver: a pre-release is older than its release.
  if (left.pre === right.pre) return 0;
  if (left.pre === "") return 1;
  if (right.pre === "") return -1;
  return left.pre < right.pre ? -1 : 1;
}

function parse(text: string): { numbers: number[]; pre: string } | null {
  const match = /^v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+.*)?$/.exec(text);
  if (match === null) return null;
  return { numbers: match.slice(1, 4).map(Number), pre: match[4] ?? "" };
}

/**
 * Under which paths one folder is visible. A process in another mount namespace, or one that came in through a bind
 * mount, has the folder's files open under another name; what stays the same is the file system (its device number in
 * mountinfo) and the place inside it.
 */

interface Mount {
  /** `major:minor` of the file system. */
  device: string;
  /** Which folder of that file system is mounted. */
  root: string;
  point: string;
}

/** `/proc/<pid>/mountinfo` as proc(5) describes it: fields 3, 4 and 5. Later lines lie over earlier ones. */
export function parseMounts(text: string): Mount[] {
  return text.split("\n").flatMap((line) => {
    const [, , device, root, point] = line.split(" ");
    if (device === undefined || root === undefined || point === undefined) return [];
    return [{ device, root: unescapePath(root), point: unescapePath(point) }];
  });
}

/** Blank, tab, newline and backslash are written as three octal digits. */
export function unescapePath(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}

/**
 * Paths in the namespace of `others` under which `folder` (absolute, resolved, in the namespace of `own`), or a part
 * of it, is visible. `prefix` is where the root of the process whose mounts `others` are lies in its namespace, `""`
 * for its top: the kernel writes mount points relative to it.
 */
export function aliasesOf(
  folder: string,
  own: readonly Mount[],
  others: readonly Mount[],
  prefix: string,
): string[] {
  const home = own.findLast(
    (mount) =>
      isWithin(folder, mount.point) &&
      !own.some((m) => m.point.length > mount.point.length && isWithin(folder, m.point)),
  );
  if (home === undefined) return [];
  const place = join(home.root, folder.slice(home.point === "/" ? 0 : home.point.length));
  const aliases = new Set<string>();
  for (const mount of others) {
    if (mount.device !== home.device) continue;
    if (isWithin(place, mount.root)) {
      const rest = place.slice(mount.root === "/" ? 0 : mount.root.length);
      aliases.add(prefix + join(mount.point, rest));
    } else if (isWithin(mount.root, place)) aliases.add(prefix + mount.point);
  }
  return [...aliases];
}

/** `path` is `folder` or lies below it. Both absolute, without a slash at the end. */
export function isWithin(path: string, folder: string): boolean {
  if (folder === "/") return true;
  return path.startsWith(folder) && (path.length === folder.length || path[folder.length] === "/");
}

function join(folder: string, rest: string): string {
  const tail = rest === "/" ? "" : rest;
  if (folder === "/") return tail === "" ? "/" : tail;
  return folder + tail;
}

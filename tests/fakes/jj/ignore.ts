/** The part of gitignore the fake knows: names, `*`, `/` anchors, trailing `/`, `!`, nested files. */
export interface IgnoreFile {
  /** Folder it lies in, relative, "" for the workspace's. */
  folder: string;
  text: string;
}

/** The last matching line wins; a file in an ignored folder is ignored whatever comes later. */
export function isIgnored(path: string, files: readonly IgnoreFile[]): boolean {
  const parts = path.split("/");
  return parts.some((_, at) => {
    const isFolder = at < parts.length - 1;
    return matches(parts.slice(0, at + 1).join("/"), isFolder, files);
  });
}

function matches(path: string, isFolder: boolean, files: readonly IgnoreFile[]): boolean {
  let ignored = false;
  for (const { folder, text } of files) {
    if (folder !== "" && !path.startsWith(`${folder}/`)) continue;
    const relative = folder === "" ? path : path.slice(folder.length + 1);
    for (const line of text.split("\n")) {
      if (line === "" || line.startsWith("#")) continue;
      const negated = line.startsWith("!");
      let pattern = negated ? line.slice(1) : line;
      if (pattern.endsWith("/")) {
        if (!isFolder) continue;
        pattern = pattern.slice(0, -1);
      }
      const anchored = pattern.includes("/");
      const subject = anchored ? relative : relative.slice(relative.lastIndexOf("/") + 1);
      if (glob(pattern.replace(/^\//, "")).test(subject)) ignored = !negated;
    }
  }
  return ignored;
}

const globs = new Map<string, RegExp>();

function glob(pattern: string): RegExp {
  let known = globs.get(pattern);
  if (known === undefined) {
    const source = pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, "[^/]*");
    known = new RegExp(`^${source.replace(/\?/g, "[^/]")}$`);
    globs.set(pattern, known);
  }
  return known;
}

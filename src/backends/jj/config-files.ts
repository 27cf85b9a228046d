/**
 * The files jj (0.46, as traced) reads its configuration from, for one workspace: the machine's, the person's, the
 * repository's and the workspace's own. The same files, environment and program mean the same settings.
 */
import { createHash } from "node:crypto";
import { realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { listDir, readBytes, readText } from "../files.ts";
import type { JjContext } from "./context.ts";
import { repoDirOf } from "./locate.ts";

export interface ConfigFiles {
  /** Those that exist, resolved. */
  paths: ReadonlySet<string>;
  /** Equal exactly while every one of them, and jj itself, is the same by stat and by content. */
  state: string;
}

/** null when it cannot be told which files they are. */
export function readConfigFiles(ctx: JjContext, workspaceRoot: string): ConfigFiles | null {
  const program = Bun.which("jj", { PATH: ctx.env["PATH"] ?? "" });
  const repoDir = repoDirOf(workspaceRoot);
  const folders = configFolders(ctx.env);
  if (program === null || repoDir === null || folders === null) return null;
  const hash = createHash("sha256");
  const paths = new Set<string>();
  try {
    hash.update(identity(program) ?? "");
    const candidates = [
      ...userFiles(ctx.env, folders),
      ...ownFiles(join(repoDir, "config-id"), join(repoDir, "config.toml"), "repos", folders),
      ...ownFiles(
        join(workspaceRoot, ".jj/workspace-config-id"),
        join(workspaceRoot, ".jj/workspace-config.toml"),
        "workspaces",
        folders,
      ),
    ];
    for (const path of candidates) {
      const id = identity(path);
      hash.update(`${path}\0${id ?? "absent"}\0`);
      if (id === null) continue;
      paths.add(realpathSync(path));
      hash.update(
        createHash("sha256")
          .update(readBytes(path) ?? "gone")
          .digest(),
      );
    }
  } catch {
    return null; // unreadable, or replaced this moment
  }
  return { paths, state: hash.digest("hex") };
}

/** jj's folders of configuration: the person's, wherever their environment may put it. */
function configFolders(env: JjContext["env"]): string[] | null {
  const home = env["HOME"];
  if (home === undefined || home === "") return null;
  const xdg = env["XDG_CONFIG_HOME"];
  const bases = [...(xdg === undefined || xdg === "" ? [] : [xdg]), join(home, ".config")];
  return bases.map((base) => join(base, "jj"));
}

function userFiles(env: JjContext["env"], folders: readonly string[]): string[] {
  const chosen = env["JJ_CONFIG"];
  if (chosen !== undefined) {
    return chosen
      .split(":")
      .filter((path) => path !== "")
      .flatMap((path) => (isFolder(path) ? tomlFiles(path) : [path]));
  }
  return [
    join(env["HOME"]!, ".jjconfig.toml"),
    ...["/etc/jj", ...folders].flatMap((folder) => [
      join(folder, "config.toml"),
      ...tomlFiles(join(folder, "conf.d")),
    ]),
  ];
}

/** A repository's, or a workspace's: named by an id that lies in it, kept in the person's folder; formerly in it. */
function ownFiles(
  idFile: string,
  formerly: string,
  kind: "repos" | "workspaces",
  folders: readonly string[],
): string[] {
  const id = readText(idFile)?.trim();
  if (id === undefined) return [idFile, formerly];
  const kept = folders.map((folder) => join(folder, kind, id));
  return [
    idFile,
    formerly,
    ...kept.flatMap((folder) => [join(folder, "metadata.binpb"), join(folder, "config.toml")]),
  ];
}

function tomlFiles(folder: string): string[] {
  return listDir(folder)
    .filter((name) => name.endsWith(".toml"))
    .map((name) => join(folder, name));
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** null when there is no such file. The change time cannot be set back. */
function identity(path: string): string | null {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
  if (stat === undefined) return null;
  return [stat.dev, stat.ino, stat.size, stat.mtimeNs, stat.ctimeNs].join(" ");
}

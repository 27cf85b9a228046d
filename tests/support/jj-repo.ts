/**
 * Real jj repositories for tests, and "the person": someone who types jj and git commands in them, with an ordinary
 * configuration and no knowledge of kiki.
 */
import { chmodSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { run } from "../../src/backends/exec.ts";
import { hermeticEnv, tempDir } from "./temp.ts";

/** Generous: the machine may be busy, and a test has its own limit. */
const PERSON_TIMEOUT_MS = 60_000;

export interface CommandResult {
  code: number;
  stdout: string;
  stderr: string;
}

export interface TestRepo {
  /** Folder that holds everything: the repository, its siblings, home. */
  dir: string;
  /** Main workspace; `.jj/repo` is a directory here. */
  root: string;
  env: Record<string, string>;
  /** Runs jj as the person in `cwd` (default: the main workspace); throws on failure; returns stdout. */
  jj(args: readonly string[], cwd?: string): Promise<string>;
  /** Like `jj`, without throwing. */
  tryJj(args: readonly string[], cwd?: string): Promise<CommandResult>;
  git(args: readonly string[], cwd?: string): Promise<string>;
  /** Writes a file (parents made) below `cwd` (default: the main workspace). */
  write(path: string, content: string | Uint8Array, cwd?: string): void;
  read(path: string, cwd?: string): string;
  remove(path: string, cwd?: string): void;
  symlink(target: string, path: string, cwd?: string): void;
  chmod(path: string, mode: number, cwd?: string): void;
  /** Current operation id, for exactly one head; read without touching anything. */
  head(): Promise<string>;
  /** Commit id of a revset, read without snapshotting anything. */
  commit(revset: string): Promise<string>;
}

export interface RepoOptions {
  /** `.git` beside `.jj`, as `jj git init` does by default. */
  colocated?: boolean;
  /** Files of the first, described commit; default one `base.txt` and a `.gitignore`. */
  files?: Record<string, string>;
  /** Reuse a folder and environment (for a second repository beside the first). */
  dir?: string;
  name?: string;
}

/** A repository with one described commit (`base`) and an empty `@` on top of it. */
export async function makeRepo(options: RepoOptions = {}): Promise<TestRepo> {
  const dir = options.dir ?? tempDir("jj");
  const root = join(dir, options.name ?? "repo");
  const repo = personIn(dir, root);
  mkdirSync(root, { recursive: true });
  await repo.jj(["git", "init", "--quiet", options.colocated ? "--colocate" : "--no-colocate"]);
  const files = options.files ?? {
    "base.txt": "line 1\nline 2\nline 3\n",
    ".gitignore": "*.log\nbuild/\n",
  };
  for (const [path, content] of Object.entries(files)) repo.write(path, content);
  await repo.jj(["commit", "--quiet", "-m", "base"]);
  return repo;
}

/** The person's hands in an existing repository (a copy, say). */
export function personIn(dir: string, root: string): TestRepo {
  const env = hermeticEnv(dir);
  const must = async (argv: string[], cwd: string): Promise<string> => {
    const result = await runAs(env, argv, cwd);
    if (result.code !== 0)
      throw new Error(`${argv.join(" ")} in ${cwd}: ${result.code}\n${result.stderr}`);
    return result.stdout;
  };
  const jjArgv = (args: readonly string[]): string[] => [
    "jj",
    "--no-pager",
    "--color=never",
    ...args,
  ];
  const read = async (args: readonly string[]): Promise<string> =>
    (await must(jjArgv(["--ignore-working-copy", "--at-op=@", ...args]), root)).trim();
  return {
    dir,
    root,
    env,
    jj: (args, cwd = root) => must(jjArgv(args), cwd),
    tryJj: (args, cwd = root) => runAs(env, jjArgv(args), cwd),
    git: (args, cwd = root) => must(["git", ...args], cwd),
    write(path, content, cwd = root) {
      mkdirSync(dirname(join(cwd, path)), { recursive: true });
      writeFileSync(join(cwd, path), content);
    },
    read: (path, cwd = root) => readFileSync(join(cwd, path), "utf8"),
    remove: (path, cwd = root) => rmSync(join(cwd, path), { recursive: true }),
    symlink: (target, path, cwd = root) => symlinkSync(target, join(cwd, path)),
    chmod: (path, mode, cwd = root) => chmodSync(join(cwd, path), mode),
    head: () => read(["op", "log", "--no-graph", "-n", "1", "-T", "id"]),
    commit: (revset) => read(["log", "--no-graph", "-r", revset, "-T", 'commit_id ++ "\\n"']),
  };
}

/** Runs one command to its end in exactly the given environment. */
export async function runAs(
  env: Record<string, string>,
  argv: readonly string[],
  cwd: string,
): Promise<CommandResult> {
  const result = await run({ argv, cwd, env, timeoutMs: PERSON_TIMEOUT_MS });
  return {
    code: result.code ?? -1,
    stdout: result.stdout.toString("utf8"),
    stderr: result.stderr,
  };
}

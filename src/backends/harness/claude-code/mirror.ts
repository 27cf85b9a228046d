/**
 * Skills, agents and commands, mirrored as plugins. `--setting-sources ""` keeps Claude Code (2.1.332) from loading
 * them, and hooks in their frontmatter would run beside kiki's: the mirror's frontmatter is written anew without
 * `hooks`, from what a YAML parser understood, so that nothing gets through by how it is spelled.
 */
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { fail } from "../../../core/errors.ts";
import { readText } from "../../files.ts";
import { isObject } from "./settings.ts";

const PARTS = ["skills", "agents", "commands"] as const;
/** Per mirrored folder; a skill with more files is a project by itself. */
const MAX_FILES = 5_000;
const MAX_DEPTH = 12;

/**
 * Mirrors `from` (a `.claude` folder) into the plugin folder `to`, which is rebuilt. Returns whether there was
 * anything to mirror. `write` makes the text files; everything else is a symlink to the original file.
 */
export function mirrorAsPlugin(
  from: string,
  to: string,
  name: string,
  write: (path: string, text: string) => void,
): boolean {
  rmSync(to, { recursive: true, force: true });
  const parts = PARTS.filter((part) => existsSync(join(from, part)));
  const budget = { left: MAX_FILES, from };
  const files = parts.flatMap((part) => filesBelow(join(from, part), part, budget, 0));
  if (files.length === 0) return false;
  const manifest = {
    name,
    version: "1.0.0",
    description: `The ${name}'s skills, agents and commands`,
  };
  mkdirSync(join(to, ".claude-plugin"), { recursive: true, mode: 0o700 });
  write(join(to, ".claude-plugin", "plugin.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  for (const file of files) {
    const target = join(to, file);
    mkdirSync(dirname(target), { recursive: true, mode: 0o700 });
    if (/\.(?:md|markdown)$/i.test(file))
      write(target, withoutHooks(readText(join(from, file)) ?? ""));
    else symlinkSync(join(from, file), target);
  }
  return true;
}

/** The first definition in a `.claude` folder whose frontmatter has hooks, absolute; null when none has. */
export function definitionWithHooks(from: string): string | null {
  const budget = { left: MAX_FILES, from };
  const files = PARTS.filter((part) => existsSync(join(from, part))).flatMap((part) =>
    filesBelow(join(from, part), part, budget, 0),
  );
  const found = files
    .filter((file) => /\.(?:md|markdown)$/i.test(file))
    .map((file) => join(from, file))
    .find((file) => /^[ \t"']*hooks["']?[ \t]*:/im.test(readText(file) ?? ""));
  return found ?? null;
}

/** Relative paths of the regular files below a folder, symlinks followed, in a stable order. */
function filesBelow(
  folder: string,
  relative: string,
  budget: { left: number; from: string },
  depth: number,
): string[] {
  const found: string[] = [];
  for (const name of readdirSync(folder).sort()) {
    if (name === ".git" || name === "node_modules" || name === ".claude-plugin") continue;
    const stat = statSync(join(folder, name), { throwIfNoEntry: false });
    if (stat?.isDirectory() === true && depth < MAX_DEPTH) {
      found.push(...filesBelow(join(folder, name), `${relative}/${name}`, budget, depth + 1));
    } else if (stat?.isFile() === true) {
      budget.left -= 1;
      if (budget.left < 0) {
        throw fail(
          "failed",
          "bad-settings",
          `${budget.from} has more than ${MAX_FILES} files of skills, agents and commands`,
          "move what is not part of a skill elsewhere",
        );
      }
      found.push(`${relative}/${name}`);
    }
  }
  return found;
}

/** The markdown with its frontmatter written anew, less `hooks`. JSON values are valid YAML. */
export function withoutHooks(markdown: string): string {
  const match = /^\ufeff?---[ \t]*\r?\n([\s\S]*?)(?:^|\n)---[ \t]*(?:\r?\n|$)/.exec(markdown);
  if (match === null) return markdown;
  const body = markdown.slice(match[0].length);
  const lines = Object.entries(frontmatter(match[1] ?? ""))
    .filter(([key]) => key.trim().toLowerCase() !== "hooks")
    .map(([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`);
  return `---\n${lines.join("\n")}\n---\n${body}`;
}

/** What YAML says; of what it cannot read, the lines that are plainly `name` and `description`. */
function frontmatter(yaml: string): Record<string, unknown> {
  try {
    const value: unknown = Bun.YAML.parse(yaml);
    if (isObject(value)) return value;
  } catch {
    // Claude Code is more lenient than YAML, for example about colons in a description.
  }
  const plain: Record<string, unknown> = {};
  for (const key of ["name", "description"]) {
    const found = new RegExp(`^${key}:[ \\t]*(.+)$`, "m").exec(yaml);
    if (found?.[1] !== undefined) plain[key] = found[1].trim();
  }
  return plain;
}

/**
 * The person's own instructions, which `--setting-sources ""` keeps Claude Code (2.1.332) from reading: CLAUDE.md of
 * the configuration folder and CLAUDE.local.md of the workspace, with the files they import by `@path`.
 */
import { statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { readText } from "../../files.ts";

/** As deep as Claude Code follows imports. */
const MAX_DEPTH = 5;
const MAX_FILE_BYTES = 256 * 1024;

/** Sections of markdown, "" when there are no such files. `home` is what `~/` stands for. */
export function personalInstructions(configDir: string, workspace: string, home: string): string {
  const seen = new Set<string>();
  return [
    section("The person's instructions for all projects", join(configDir, "CLAUDE.md"), home, seen),
    section(
      "The person's instructions for this project",
      join(workspace, "CLAUDE.local.md"),
      home,
      seen,
    ),
  ]
    .filter((text) => text !== "")
    .join("\n");
}

function section(title: string, path: string, home: string, seen: Set<string>): string {
  const texts = withImports(path, home, seen, 0);
  return texts
    .map(([file, text], i) => `# ${i === 0 ? title : "Imported"} (${file})\n\n${text}\n`)
    .join("\n");
}

/** The file and what it imports, each once. Imports that are no readable text file are plain words. */
function withImports(
  path: string,
  home: string,
  seen: Set<string>,
  depth: number,
): [string, string][] {
  if (seen.has(path) || depth > MAX_DEPTH || !isSmallFile(path)) return [];
  seen.add(path);
  const text = readText(path)?.trim() ?? "";
  if (text === "") return [];
  const imported = importsOf(text).map((target) =>
    target.startsWith("~/") ? join(home, target.slice(2)) : resolve(dirname(path), target),
  );
  return [[path, text], ...imported.flatMap((file) => withImports(file, home, seen, depth + 1))];
}

/** `@path` outside of code. */
function importsOf(text: string): string[] {
  const prose = text.replace(/^```[\s\S]*?^```/gm, "").replace(/`[^`\n]*`/g, "");
  return [...prose.matchAll(/(?:^|\s)@([^\s@]+)/g)].map((match) => match[1] ?? "");
}

function isSmallFile(path: string): boolean {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat !== undefined && stat.isFile() && stat.size <= MAX_FILE_BYTES;
}

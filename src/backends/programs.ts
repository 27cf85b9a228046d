/**
 * Names by which panes and hooks start kiki's own programs. They lie in the state folder, so that a launcher written
 * for an agent months ago still works after kiki was upgraded or moved: each daemon points them at itself.
 */
import { join } from "node:path";
import { ensureDir, replaceLink, writeDurable } from "./files.ts";

export interface Programs {
  kk: string;
  hook: string;
}

/**
 * Makes `folder` (0700) hold `kk` and `kk-hook`. A compiled kiki is one file that decides by the name it is called
 * by; run from its sources, `main` is given and KIKI_AS decides.
 */
export function installPrograms(folder: string, executable: string, main: string | null): Programs {
  ensureDir(folder, 0o700);
  const install = (name: string): string => {
    const path = join(folder, name);
    if (main === null) replaceLink(path, executable);
    else writeDurable(path, script(name, executable, main), 0o700);
    return path;
  };
  return { kk: install("kk"), hook: install("kk-hook") };
}

function script(name: string, executable: string, main: string): string {
  return `#!/bin/sh\nKIKI_AS=${name} exec ${quote(executable)} ${quote(main)} "$@"\n`;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/**
 * Folders that are dear to make: made once in a process and handed out as copies, exact to the nanosecond of each file's
 * times (jj goes by them). Copies share nothing; what files say comes along as it is, an original's path in them too.
 */
import { existsSync } from "node:fs";
import { tempDir } from "./temp.ts";
import { copyTree } from "./tree.ts";

interface Original<T> {
  dir: string;
  /** What its maker wants to be known of it. */
  known: T;
}

const originals = new Map<string, Promise<Original<unknown>>>();

/** A copy of what `make` makes, and leaves alone from then on. `key` says all that it depends on. */
export async function copyOf<T>(
  key: string,
  make: () => Promise<Original<T>>,
): Promise<Original<T> & { original: string }> {
  let made = originals.get(key) as Promise<Original<T>> | undefined;
  // `removeTempDirs` takes originals too.
  if (made === undefined || !existsSync((await made).dir)) {
    made = make();
    originals.set(key, made);
  }
  const { dir: original, known } = await made;
  const dir = tempDir("jj");
  await copyTree(`${original}/.`, dir);
  return { dir, known, original };
}

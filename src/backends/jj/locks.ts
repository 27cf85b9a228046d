/**
 * jj takes flock(2) locks on files it makes and removes again (jj 0.46: `.jj/working_copy/working_copy.lock`,
 * `op_heads/heads/lock`). A command that was killed leaves the file without the lock, so that the file alone
 * proves nothing; Linux says in /proc/locks who really holds one.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

/** Lock file jj holds while a command works on the files of a workspace. */
export function workingCopyLock(workspaceRoot: string): string {
  return join(workspaceRoot, ".jj/working_copy/working_copy.lock");
}

/** Lock file jj holds while it publishes an operation. */
export function opHeadsLock(repoDir: string): string {
  return join(repoDir, "op_heads/heads/lock");
}

/** Somebody holds the lock; without /proc an existing lock file counts as held. Takes nothing, changes nothing. */
export function isHeld(lockFile: string): boolean {
  if (!existsSync(lockFile)) return false;
  try {
    const inode = statSync(lockFile).ino;
    // "1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF"; the device is written differently from stat's, so only the
    // inode is compared: a false match merely says "busy" once.
    const pattern = new RegExp(`:${inode} `);
    return readFileSync("/proc/locks", "utf8")
      .split("\n")
      .some((line) => pattern.test(line));
  } catch {
    return existsSync(lockFile);
  }
}

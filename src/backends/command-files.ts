/**
 * Standard streams of a command: nameless temporary files, not pipes. With some twenty commands started at once Bun
 * 1.4.5 now and then never reports the end of a pipe whose command has long exited; a file is complete when its writer
 * has exited, whoever else still holds it.
 */
import { closeSync, fstatSync, readSync } from "node:fs";
import { tmpdir } from "node:os";
import { errorLine, fail } from "../core/errors.ts";
import { namelessFile } from "./files.ts";

/** Linux: a file there never meets a disk (5 ms less on a busy one). Elsewhere, or when full, TMPDIR serves. */
const MEMORY_FOLDERS = process.platform === "linux" ? ["/dev/shm"] : [];

const NONE = -1;

/** Standard streams of one command as files without a name. */
export class CommandFiles {
  stdinFd: number | null = null;
  stdoutFd = NONE;
  stderrFd = NONE;

  constructor(input: string | Uint8Array | undefined) {
    try {
      if (input !== undefined) this.stdinFd = outputFile(input);
      this.stdoutFd = outputFile();
      this.stderrFd = outputFile();
    } catch (error) {
      // Out of descriptors, for example: those already taken would make it worse.
      this.close();
      throw error;
    }
  }

  size(): number {
    return fstatSync(this.stdoutFd).size + fstatSync(this.stderrFd).size;
  }

  stdout(cap: number): Buffer {
    return readUpTo(this.stdoutFd, cap);
  }

  stderr(cap: number): Buffer {
    return readUpTo(this.stderrFd, cap);
  }

  close(): void {
    for (const fd of [this.stdinFd, this.stdoutFd, this.stderrFd]) {
      if (fd !== null && fd !== NONE) closeSync(fd);
    }
  }
}

function outputFile(content?: string | Uint8Array): number {
  try {
    return namelessFile([...MEMORY_FOLDERS, tmpdir()], content);
  } catch (error) {
    throw fail(
      "failed",
      "command-temp",
      `no temporary file can be made in ${tmpdir()}: ${errorLine(error)}`,
      "free some space there, or set TMPDIR to another folder",
    );
  }
}

function readUpTo(fd: number, cap: number): Buffer {
  const bytes = Buffer.alloc(Math.min(fstatSync(fd).size, cap));
  let at = 0;
  while (at < bytes.length) {
    const length = readSync(fd, bytes, at, bytes.length - at, at);
    if (length === 0) break;
    at += length;
  }
  return bytes.subarray(0, at);
}

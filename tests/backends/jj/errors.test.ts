/** What a person is told of a jj command that failed. The texts are those of jj 0.46.0 and git 2.53. */
import { describe, expect, test } from "bun:test";
import { jjError } from "../../../src/backends/jj/errors.ts";

function told(stderr: string): { code: string; message: string; hint: string | undefined } {
  const result = {
    code: 1,
    signal: null,
    stdout: Buffer.alloc(0),
    stderr,
    timedOut: false,
    cut: false,
  };
  const { code, message, hint } = jjError("add workspace kk-a", result);
  return { code, message, hint };
}

describe("jjError", () => {
  test("git failed below jj → git's own reason is in the line; a full disk is named, with what to do", () => {
    const git = (why: string): string =>
      `Error: Git process failed: External git program failed:\nPreparing worktree (new branch 'x')\nfatal: ${why}\n\n`;
    expect(told(git("could not write to '/w/.git': No space left on device"))).toEqual({
      code: "jj-disk-full",
      message:
        "jj could not add workspace kk-a: Git process failed: External git program failed: could not write to '/w/.git': No space left on device",
      hint: "the disk is full: make room, then try again",
    });
    expect(told(git("'/w' already exists"))).toMatchObject({
      code: "jj-failed",
      message: expect.stringMatching(/failed: '\/w' already exists$/),
    });
  });

  test("jj's own cause → behind its error; neither → its first line", () => {
    const internal =
      "Internal error: Failed to write\nCaused by:\n1: Disk quota exceeded (os error 122)\n";
    expect(told(internal)).toMatchObject({
      code: "jj-disk-full",
      message:
        "jj could not add workspace kk-a: Failed to write: Disk quota exceeded (os error 122)",
    });
    expect(told("odd\nmore\n").message).toBe("jj could not add workspace kk-a: odd");
  });
});

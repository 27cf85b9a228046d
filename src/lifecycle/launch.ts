/**
 * The launch file of an incarnation: what the pane's wrapper starts, and the bytes it was proved with. Written before
 * the gate opens, checked again when it opens, when it is passed and when the harness says it is ready.
 */
import { fail } from "../core/errors.ts";
import type { Capabilities } from "../ports/harness.ts";
import type { CreationFiles } from "./creation-deps.ts";

export interface LaunchFile {
  incarnation: string;
  argv: string[];
  /** Holds the incarnation's secret and the person's keys: the file is 0600 and this is never logged. */
  env: Record<string, string>;
  cwd: string;
  harnessVersion: string;
  harnessSessionId: string | null;
  secretSha256: string;
  settingsFingerprint: string;
  capabilities: Capabilities;
  /** By what it will be ready: the harness's own report, or its composer where that comes with the first prompt only. */
  readyBy?: "session" | "composer";
  /** Variables that show in a running process that it is this very start's. */
  marks?: readonly string[];
  /** Hex SHA-256 of every generated file, by path. */
  files: Record<string, string>;
}

/** What the wrapper gets. */
export interface Launch {
  incarnation: string;
  argv: string[];
  env: Record<string, string>;
  cwd: string;
}

/** null when there is none, or not a whole one. */
export async function readLaunch(files: CreationFiles, path: string): Promise<LaunchFile | null> {
  const text = await files.readText(path);
  if (text === null) return null;
  try {
    return JSON.parse(text) as LaunchFile;
  } catch {
    return null;
  }
}

/** Throws `settings-changed` naming the file whose bytes are not the proved ones any more. */
export async function verifyFiles(files: CreationFiles, launch: LaunchFile): Promise<void> {
  for (const [path, sha256] of Object.entries(launch.files)) {
    if ((await files.sha256(path)) === sha256) continue;
    throw settingsChanged(path);
  }
}

/**
 * The launch file of exactly this incarnation, with this fingerprint and unchanged files. Throws `settings-changed`.
 */
export async function provedLaunch(
  files: CreationFiles,
  path: string,
  expected: { incarnation: string; settingsFingerprint: string },
): Promise<LaunchFile> {
  const launch = await readLaunch(files, path);
  if (
    launch === null ||
    launch.incarnation !== expected.incarnation ||
    launch.settingsFingerprint !== expected.settingsFingerprint
  ) {
    throw settingsChanged(path);
  }
  await verifyFiles(files, launch);
  return launch;
}

function settingsChanged(path: string): Error {
  return fail(
    "failed",
    "settings-changed",
    `${path} was changed after kiki had proved it`,
    "find out which program edits kiki's state folder, then start the agent again",
  );
}

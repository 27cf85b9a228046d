/**
 * What the hook does when the daemon cannot be asked, and other rare ends (harness chapter, "outage path"). Loaded on
 * demand: here node's file functions are worth their 2 ms. Every function returns the exit code for the launcher.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { denyVerdict, genericDenyOutput, refusalReason } from "../core/generic-deny.ts";
import { callerFields, EXIT_DENY, EXIT_PASS, type HookInputs } from "./hook-protocol.ts";

/** Starts of the daemon by hooks of one user are at least this far apart. */
const DAEMON_START_INTERVAL_MS = 10_000;
/** Digits of a spool file's time, so that names sort by time until the year 33658. */
const SPOOL_TIME_DIGITS = 15;

/**
 * No answer to `PreToolUse`. The order is the protocol: first the `passed/` file exists, then the marker is looked at.
 * The daemon first writes the marker, then lists `passed/`, so one side always sees the other.
 */
export function passUnlessBarrier(
  inputs: HookInputs,
  event: string,
  payload: Uint8Array,
  reason: string,
  startIt: boolean,
): number {
  let record: string | null = null;
  let trouble = "";
  try {
    record = createPassed(inputs, payload);
  } catch (error) {
    // The barrier marker lies beside this folder: where nothing can be created, no barrier can be raised either.
    trouble = `; not recorded: ${line(error)}`;
  }
  const barred = markerPresent(inputs.barrierFile);
  if (barred && record !== null) rmSync(record, { force: true });
  if (barred) writeOut(genericDenyOutput());
  else log(inputs, event, payload, `passed without asking: ${reason}${trouble}`);
  if (startIt) startDaemon(inputs);
  return barred ? EXIT_DENY : EXIT_PASS;
}

/** A call told to hold was not released. */
export function denyGenerically(): number {
  writeOut(genericDenyOutput());
  return EXIT_DENY;
}

/** The daemon refused the caller or the call, with a message for people that the model may read too. */
export function refuse(message: string): number {
  writeOut(denyVerdict(refusalReason(message)));
  return EXIT_DENY;
}

/** An event the daemon could not take waits in the spool; the daemon drains it before it decides anything. */
export function spoolEvent(
  inputs: HookInputs,
  event: string,
  payload: Uint8Array,
  startIt: boolean,
): number {
  try {
    const parts = [Buffer.from(`${callerFields(inputs)},"event":`), payload, Buffer.from("}\n")];
    writeSpool(inputs.spoolFolder, Buffer.concat(parts));
  } catch (error) {
    log(inputs, event, payload, `event lost: ${line(error)}`);
  }
  if (startIt) startDaemon(inputs);
  return EXIT_PASS;
}

/** An event the daemon is there for but will not have: repeating it would change nothing. */
export function logRefusedEvent(
  inputs: HookInputs,
  event: string,
  payload: Uint8Array,
  message: string,
): number {
  log(inputs, event, payload, `event refused: ${message}`);
  return EXIT_PASS;
}

/** The first prompt was answered: from now on a daemon that does not answer holds no prompt up for seconds. */
export function rememberGreeting(inputs: HookInputs): number {
  try {
    writeFileSync(inputs.greetedFile, `${inputs.incarnation}\n`, { mode: 0o600 });
  } catch {
    // Then the next prompt may wait as long as the first.
  }
  return EXIT_PASS;
}

/** The file appears under its name with its content whole, so that a daemon never reads half a payload. */
function createPassed(inputs: HookInputs, payload: Uint8Array): string {
  const { passedFolder, incarnation } = inputs;
  if (passedFolder === "" || incarnation === "") throw new Error("no passed folder or incarnation");
  mkdirSync(passedFolder, { recursive: true, mode: 0o700 });
  const name = `${incarnation}.${process.pid}`;
  // Only this process uses its id in a name; a file of an older process with the same id is kept.
  let path = join(passedFolder, name);
  for (let n = 1; existsSync(path); n += 1) path = join(passedFolder, `${name}-${n}`);
  const temporary = join(passedFolder, `.${name}.tmp`);
  const fd = openSync(temporary, "w", 0o600);
  try {
    writeAll(fd, payload);
    fsyncSync(fd);
  } catch {
    // The file's existence is what counts; its content may be missing when the disk is full.
  } finally {
    closeSync(fd);
  }
  renameSync(temporary, path);
  syncFolder(passedFolder);
  return path;
}

/** A marker that cannot be looked at counts as present. */
function markerPresent(path: string): boolean {
  try {
    lstatSync(path);
    return true;
  } catch (error) {
    const code = codeOf(error);
    return path !== "" && code !== "ENOENT" && code !== "ENOTDIR";
  }
}

function writeSpool(folder: string, bytes: Buffer): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const time = String(Date.now()).padStart(SPOOL_TIME_DIGITS, "0");
  let name = "";
  for (let n = 0; name === "" || existsSync(join(folder, name)); n += 1) {
    name = `${time}-${process.pid}-${n}.json`;
  }
  const temporary = join(folder, `.${name}.tmp`);
  const fd = openSync(temporary, "wx", 0o600);
  try {
    writeAll(fd, bytes);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(temporary, join(folder, name));
  syncFolder(folder);
}

/** One line per entry: time, event, tool_use_id or "-", reason. The daemon shows one notice per non-empty log. */
function log(inputs: HookInputs, event: string, payload: Uint8Array, reason: string): void {
  if (inputs.errorLog === "") return;
  const text = `${new Date().toISOString()} ${event} ${toolUseId(payload)} ${reason.replace(/\s+/g, " ")}\n`;
  try {
    mkdirSync(dirname(inputs.errorLog), { recursive: true, mode: 0o700 });
    const fd = openSync(inputs.errorLog, "a", 0o600);
    writeAll(fd, Buffer.from(text));
    closeSync(fd);
  } catch {
    // A log that cannot be written must not decide about a tool call.
  }
}

/** The last one in the payload: both harnesses write the field after the tool's input, which may quote another. */
function toolUseId(payload: Uint8Array): string {
  const bytes = Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength);
  const at = bytes.lastIndexOf('"tool_use_id"');
  if (at < 0) return "-";
  const found = /^"tool_use_id"\s*:\s*"([\w.-]{1,100})"/.exec(
    bytes.toString("latin1", at, at + 200),
  );
  return found?.[1] ?? "-";
}

/**
 * Starts the daemon without waiting for it, at most once per interval and user. Creating the stamp exclusively is
 * what makes one of several hooks the starter; an old stamp is first renamed away, which also only one can do.
 */
function startDaemon(inputs: HookInputs): void {
  if (inputs.kk === "" || inputs.stateDir === "") return;
  const stamp = join(inputs.stateDir, "hook-start.stamp");
  try {
    const age = Date.now() - (statSync(stamp, { throwIfNoEntry: false })?.mtimeMs ?? 0);
    // A stamp from the future (the clock went back) is as good as none.
    if (age >= 0 && age < DAEMON_START_INTERVAL_MS) return;
    const old = `${stamp}.${process.pid}`;
    if (existsSync(stamp)) {
      renameSync(stamp, old);
      rmSync(old, { force: true });
    }
    closeSync(openSync(stamp, "wx", 0o600));
    Bun.spawn([inputs.kk, "__start-daemon"], {
      cwd: "/",
      env: daemonEnv(),
      detached: true,
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
    }).unref();
  } catch {
    // Another hook was first, or it cannot be started: the next client will say so.
  }
}

/** Nothing of the harness or of this thread: the daemon belongs to the user. */
function daemonEnv(): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    const foreign = /^(?:KIKI_|CLAUDE|BUN_|NODE_OPTIONS$|TMUX)/.test(name);
    if (value !== undefined && (!foreign || name === "KIKI_PATHS__USER_STATE_DIR"))
      env[name] = value;
  }
  return env;
}

function writeOut(text: string): void {
  writeAll(1, Buffer.from(text));
}

function writeAll(fd: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.byteLength;) at += writeSync(fd, bytes, at);
}

function syncFolder(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as { code?: string }).code;
}

function line(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * `kk doctor`: every prerequisite on one page, each failing line with its fix. The client's part works without a
 * daemon; a daemon that cannot start is one failing line among the others.
 */
import { accessSync, constants, statSync } from "node:fs";
import { dirname } from "node:path";
import { defineCommand } from "citty";
import { errorLine, KikiError } from "../core/errors.ts";
import { paint } from "../core/render/glyphs.ts";
import { padEnd, printable } from "../core/render/width.ts";
import { isAtLeast, TOOLS, versionIn, type ToolRequirement } from "../core/tool-versions.ts";
import type { DoctorLine, FoundHarness } from "../rpc/contract/types.ts";
import { findSocket } from "../rpc/find-socket.ts";
import { BUILD, VERSION } from "../version.ts";
import { connect, stateDir } from "./connect.ts";
import { DEFAULT_HARNESS, findHarness, HARNESS_BINARIES } from "./harness-binaries.ts";
import { colour, print, printJson } from "./out.ts";
import { ask } from "./spawn-tty.ts";

const HARNESSES = ["claude-code", "codex"] as const;
/** A cold program of several hundred megabytes on a busy machine. */
const HARNESS_VERSION_MS = 15_000;

export const doctorCommand = defineCommand({
  meta: { name: "doctor", description: "Check every prerequisite; each failing line says its fix" },
  args: { json: { type: "boolean", description: "Print the checks as JSON" } },
  async run({ args }) {
    const lines = [...clientLines(), ...(await daemonLines())];
    if (args.json) printJson({ lines });
    else print(renderDoctor(lines, colour()));
    if (lines.some((line) => !line.ok)) process.exitCode = 1;
  },
});

/** One line per check, the fix below a failing one. */
export function renderDoctor(lines: readonly DoctorLine[], inColour: boolean): string {
  const width = Math.max(...lines.map((line) => line.name.length));
  return lines
    .flatMap((line) => {
      const mark = line.ok ? paint("✓", "green", inColour) : paint("!", "red", inColour);
      const row = `${mark} ${padEnd(printable(line.name), width)}  ${printable(line.detail)}`;
      return line.ok || line.fix === null ? [row] : [row, `  → ${printable(line.fix)}`];
    })
    .join("\n");
}

function clientLines(): DoctorLine[] {
  return [
    { name: "kk", ok: true, detail: `${VERSION} (${BUILD})`, fix: null },
    ...TOOLS.map(toolLine),
    stateLine(),
    socketLine(),
    ...missingHarnesses(),
  ];
}

function toolLine(tool: ToolRequirement): DoctorLine {
  const { name, minimum, fix } = tool;
  const path = Bun.which(name);
  if (path === null) return { name, ok: false, detail: "not on PATH", fix };
  const said = ask([path, tool.versionFlag]);
  const version = versionIn(said?.stdout ?? "");
  if (version === null) {
    return { name, ok: false, detail: `${path} does not say its version`, fix };
  }
  const ok = isAtLeast(version, minimum);
  // As the tool writes it: tmux's `3.3a` is more than its numbers.
  const written = /\d+\.\d+[^\s,)]*/.exec(said?.stdout ?? "")?.[0] ?? version;
  const detail = `${written} (${path})${ok ? "" : `, older than ${minimum}`}`;
  return { name, ok, detail, fix: ok ? null : fix };
}

/** The folder may not be there yet; then its nearest parent must let it be made. */
function stateLine(): DoctorLine {
  const name = "state folder";
  try {
    const folder = stateDir();
    let at = folder;
    while (statSync(at, { throwIfNoEntry: false }) === undefined && at !== "/") at = dirname(at);
    const fix = `make ${at} a folder you can write`;
    if (!statSync(at).isDirectory())
      return { name, ok: false, detail: `${at} is not a folder`, fix };
    try {
      accessSync(at, constants.W_OK | constants.X_OK);
    } catch {
      return { name, ok: false, detail: `${at} is not writable`, fix };
    }
    return {
      name,
      ok: true,
      detail: at === folder ? folder : `${folder} (not made yet)`,
      fix: null,
    };
  } catch (error) {
    return { name, ok: false, detail: errorLine(error), fix: hintOf(error) };
  }
}

function socketLine(): DoctorLine {
  const name = "socket path";
  try {
    const socket = findSocket(stateDir(), process.env["XDG_RUNTIME_DIR"]);
    return { name, ok: true, detail: `${socket} (${Buffer.byteLength(socket)} bytes)`, fix: null };
  } catch (error) {
    return { name, ok: false, detail: errorLine(error), fix: hintOf(error) };
  }
}

const INSTALL: Readonly<Record<string, string>> = {
  "claude-code": "install Claude Code: https://code.claude.com/docs/en/setup",
  codex: "install Codex: https://developers.openai.com/codex/cli",
};

/** Without the default harness no thread can be made; another one is a choice of its own, and may be missing. */
function missingHarnesses(): DoctorLine[] {
  return HARNESSES.filter((name) => findHarness(name, process.env) === null).map((name) => ({
    name,
    ok: name !== DEFAULT_HARNESS,
    detail: `${HARNESS_BINARIES[name]} is not on PATH`,
    fix: INSTALL[name] ?? null,
  }));
}

/** Every harness on the person's PATH, whose word for its version is asked here: the daemon runs none for it. */
function foundHarnesses(): FoundHarness[] {
  return HARNESSES.flatMap((name) => {
    const executable = findHarness(name, process.env);
    if (executable === null) return [];
    const said = ask([executable, "--version"], HARNESS_VERSION_MS)?.stdout ?? "";
    return [{ name, executable, version: /\b(\d+\.\d+\.\d+[^\s,)]*)/.exec(said)?.[1] ?? null }];
  });
}

async function daemonLines(): Promise<DoctorLine[]> {
  const name = "daemon";
  try {
    const { client, daemon } = await connect();
    const detail = `${daemon.version} (${daemon.build}), pid ${daemon.pid}, ${daemon.socket}`;
    const { lines } = await client.call("Doctor", { harnesses: foundHarnesses() });
    return [{ name, ok: true, detail, fix: null }, ...lines];
  } catch (error) {
    return [{ name, ok: false, detail: errorLine(error), fix: hintOf(error) }];
  }
}

function hintOf(error: unknown): string | null {
  return error instanceof KikiError ? (error.hint ?? null) : null;
}

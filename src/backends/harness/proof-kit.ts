/** What the quick proofs of every harness use: a text as hard as a payload can be, an MCP server, a launch in a folder. */
import { join } from "node:path";
import { KIKI_HEADER } from "../../core/generic-deny.ts";
import { MAX_PAYLOAD_BYTES } from "../../core/payload.ts";
import type { LaunchRequest } from "../../ports/harness.ts";
import { shellQuote } from "./launcher.ts";

/** As long as a payload can be, with what programs like to change on the way. */
export function hardestReason(bytes: number = MAX_PAYLOAD_BYTES): string {
  const head = `${KIKI_HEADER} "quoted" \\ back\n\n  two  spaces\tÜnïcödé ✓ 🙂 {"json": [1]}\n`;
  const end = "\n(end of message from kiki)";
  const line = "- a line of what changed, as long as they are\n";
  const room = bytes - Buffer.byteLength(head) - Buffer.byteLength(end);
  return head + line.repeat(Math.floor(room / line.length)).trimEnd() + end;
}

/**
 * sh that is an MCP server over standard streams, as much of it as a client needs: `<folder>/asked` is made when its tools
 * are asked for, `<folder>/called` when one is called. `tools`: names, each without arguments.
 */
export function mcpServer(folder: string, tools: readonly string[]): string {
  const [asked, called] = ["asked", "called"].map((name) => shellQuote(join(folder, name)));
  const list = tools.map((name) => ({
    name,
    description: "Looks.",
    inputSchema: { type: "object", properties: {} },
  }));
  return `while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\\([0-9][0-9]*\\).*/\\1/p')
  version=$(printf '%s' "$line" | sed -n 's/.*"protocolVersion":"\\([^"]*\\)".*/\\1/p')
  case $line in
    *'"initialize"'*) result='{"protocolVersion":"'$version'","capabilities":{"tools":{}},"serverInfo":{"name":"kiki","version":"1"}}' ;;
    *'"tools/list"'*) : >${asked}; result=${shellQuote(JSON.stringify({ tools: list }))} ;;
    *'"tools/call"'*) : >${called}; result='{"content":[{"type":"text","text":"seen"}]}' ;;
    *) result='{}' ;;
  esac
  [ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,"result":%s}\\n' "$id" "$result"
done
`;
}

/** A launch in a folder of a proof's own, with `hook` where kk-hook would be; the rest is the harness's. */
export function proofLaunch(
  folder: string,
  hook: string,
  of: Pick<
    LaunchRequest,
    "sessionId" | "resume" | "workspaceRoot" | "folder" | "executable" | "prompt" | "env"
  > & { extraArgs?: readonly string[] },
): LaunchRequest {
  const at = (name: string): string => join(folder, name);
  return {
    repoId: "proof",
    threadId: "proof",
    threadName: "proof",
    incarnation: of.resume ? "proof-2" : "proof-1",
    incarnationSecret: "proof",
    extraArgs: [],
    briefing: null,
    ...of,
    hook: {
      executable: hook,
      socket: at("kkd.sock"),
      credentialFile: at("credential"),
      errorLog: at("errors.log"),
      passedFolder: at("passed"),
      spoolFolder: at("spool"),
      barrierFile: at("barrier"),
      kk: "/nonexistent/kk",
      stateDir: at("state"),
    },
  };
}

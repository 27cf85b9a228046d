/** One `hooks/list` of the real `codex app-server`, as kiki's preflight asks it. */
import type { CodexHome } from "../codex-home.ts";
import { CODEX } from "../install.ts";

/** The whole answer to `hooks/list` for the workspace, `{"id":…,"result":…}`. */
export async function hooksList(home: CodexHome, workspace: string): Promise<unknown> {
  const server = Bun.spawn([CODEX, "app-server", "--enable", "hooks"], {
    cwd: workspace,
    env: home.env,
    stdio: ["pipe", "pipe", "ignore"],
  });
  const send = (message: object): void => {
    void server.stdin.write(`${JSON.stringify(message)}\n`);
    void server.stdin.flush();
  };
  const clientInfo = { name: "gate", title: "gate", version: "0" };
  try {
    send({ id: 1, method: "initialize", params: { clientInfo, capabilities: {} } });
    let rest = "";
    for await (const bytes of server.stdout) {
      rest += new TextDecoder().decode(bytes);
      const lines = rest.split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const message = JSON.parse(line) as { id?: number };
        if (message.id === 1) {
          send({ method: "initialized" });
          send({ id: 2, method: "hooks/list", params: { cwds: [workspace] } });
        }
        if (message.id === 2) return message;
      }
    }
    throw new Error("codex app-server ended without an answer to hooks/list");
  } finally {
    server.kill();
    await server.exited;
  }
}

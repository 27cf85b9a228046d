import { expect, test } from "bun:test";
import { agentEnv } from "../../src/core/agent-env.ts";

test("agent environment: a thread's own pane → nothing of that thread gets through", () => {
  const kept = {
    PATH: "/bin",
    HOME: "/home/p",
    LC_ALL: "C.UTF-8",
    XDG_RUNTIME_DIR: "/run/user/1",
    ANTHROPIC_BASE_URL: "http://127.0.0.1:1",
    CLAUDE_CODE_USE_BEDROCK: "1",
    https_proxy: "http://proxy",
    DISABLE_AUTOUPDATER: "1",
    JJ_CONFIG: "/c",
  };
  const dropped = {
    KIKI_THREAD_ID: "t",
    KIKI_INCARNATION_SECRET: "s",
    KIKI_PATHS__USER_STATE_DIR: "/s",
    CLAUDECODE: "1",
    CLAUDE_CODE_SESSION_ID: "x",
    CLAUDE_CODE_ENTRYPOINT: "cli",
    TMUX: "/tmp/t,1,0",
    TMUX_PANE: "%1",
    TERM: "screen",
    BUN_OPTIONS: "--preload x",
    LD_PRELOAD: "x.so",
    NODE_OPTIONS: "--require x",
    GITHUB_TOKEN: "secret",
    AWKPATH: "x",
    UNSET: undefined,
    LANG: "with\0nul",
  };
  expect(agentEnv({ ...kept, ...dropped })).toEqual(kept);
});

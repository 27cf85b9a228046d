/**
 * Which part of a person's environment an agent and its shell get. An allow-list: what is not named here does not
 * travel, so a thread started inside another thread's pane inherits neither its identity nor its session.
 */

const NAMES = new Set([
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "SHELL",
  "LANG",
  "TZ",
  "SSH_AUTH_SOCK",
  "EDITOR",
  "PAGER",
  "COLORTERM",
  // Network of the person's site.
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "NO_PROXY",
  "ALL_PROXY",
  "http_proxy",
  "https_proxy",
  "no_proxy",
  "all_proxy",
  "NODE_EXTRA_CA_CERTS",
  // Claude Code and the clouds it can run on.
  "CLAUDE_CONFIG_DIR",
  "CLAUDE_CODE_TMPDIR",
  "CLOUD_ML_REGION",
  "IS_SANDBOX",
  // Codex: where the person's login is, a key, a certificate.
  "CODEX_HOME",
  "CODEX_API_KEY",
  "CODEX_CA_CERTIFICATE",
  // Where jj and git find the person's configuration.
  "JJ_CONFIG",
  "GIT_CONFIG_GLOBAL",
  "GIT_CONFIG_NOSYSTEM",
]);

const PREFIXES = [
  "LC_",
  "XDG_",
  "SSL_CERT_",
  "ANTHROPIC_",
  "CLAUDE_CODE_USE_",
  "OPENAI_",
  "AWS_",
  "GOOGLE_",
  "VERTEX",
  "DISABLE_",
];

/** The allow-listed part of `from`. TERM, TMUX and TMUX_PANE are the pane's own and never taken along. */
export function agentEnv(
  from: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(from)) {
    // A NUL cannot be in an environment; a value with one would fail the spawn much later.
    if (value === undefined || value.includes("\0")) continue;
    if (NAMES.has(name) || PREFIXES.some((prefix) => name.startsWith(prefix))) env[name] = value;
  }
  return env;
}

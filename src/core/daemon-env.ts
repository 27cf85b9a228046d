/**
 * Which variables kiki passes on: to the commands it runs, and to its daemon. The daemon serves every terminal of its
 * user, so nothing of the one that started it may stick.
 */

/** What jj, git and tmux need: the machine, the person's configuration, an ssh agent. Nothing else reaches them. */
const COMMAND_NAMES: ReadonlySet<string> = new Set([
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "SHELL",
  "LANG",
  "TZ",
  "TMPDIR",
  "JJ_CONFIG",
  "JJ_USER",
  "JJ_EMAIL",
  "GIT_CONFIG_GLOBAL",
  "GIT_CONFIG_SYSTEM",
  "GIT_CONFIG_NOSYSTEM",
  "GIT_EXEC_PATH",
  "GIT_TEMPLATE_DIR",
  "SSH_AUTH_SOCK",
  "GNUPGHOME",
]);
const PREFIXES = ["LC_", "XDG_"];
/** The daemon's own besides: how a notification reaches the desktop. */
const DAEMON_NAMES: ReadonlySet<string> = new Set([
  "DBUS_SESSION_BUS_ADDRESS",
  "DISPLAY",
  "WAYLAND_DISPLAY",
]);
/** `KIKI_<SECTION>__<KEY>`: configuration. Every other KIKI_ name belongs to one thread or one test. */
const CONFIGURATION = /^KIKI_[A-Z0-9]+__[A-Za-z0-9_]+$/;

/** What a command kiki runs may see of `from`. */
export function commandEnv(from: Record<string, string | undefined>): Record<string, string> {
  return pick(from, isForCommands);
}

/** What the daemon may see of `from`. */
export function daemonEnv(from: Record<string, string | undefined>): Record<string, string> {
  return pick(
    from,
    (name) => isForCommands(name) || DAEMON_NAMES.has(name) || CONFIGURATION.test(name),
  );
}

function isForCommands(name: string): boolean {
  return COMMAND_NAMES.has(name) || PREFIXES.some((prefix) => name.startsWith(prefix));
}

function pick(
  from: Record<string, string | undefined>,
  allowed: (name: string) => boolean,
): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(from)) {
    if (value !== undefined && allowed(name)) env[name] = value;
  }
  return env;
}

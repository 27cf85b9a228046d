/** The daemon's environment. It serves every terminal of its user, so nothing of the one that started it may stick. */

const NAMES = new Set([
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "SHELL",
  "LANG",
  "TZ",
  "TMPDIR",
  // Where jj, git and tmux look for the person's configuration and servers.
  "JJ_CONFIG",
  "JJ_USER",
  "JJ_EMAIL",
  "GIT_CONFIG_GLOBAL",
  "GIT_CONFIG_SYSTEM",
  "GIT_CONFIG_NOSYSTEM",
  "GIT_EXEC_PATH",
  "GIT_TEMPLATE_DIR",
  "GNUPGHOME",
  "SSH_AUTH_SOCK",
  "TMUX_TMPDIR",
  // What notify-send needs to reach the desktop.
  "DBUS_SESSION_BUS_ADDRESS",
  "DISPLAY",
  "WAYLAND_DISPLAY",
]);
const PREFIXES = ["LC_", "XDG_"];
/** `KIKI_<SECTION>__<KEY>`: configuration. Every other KIKI_ name belongs to one thread or one test. */
const CONFIGURATION = /^KIKI_[A-Z0-9]+__[A-Z0-9_]+$/;

/** The allow-listed part of `from`. */
export function daemonEnv(from: Record<string, string | undefined>): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(from)) {
    if (value === undefined) continue;
    const allowed =
      NAMES.has(name) || PREFIXES.some((p) => name.startsWith(p)) || CONFIGURATION.test(name);
    if (allowed) env[name] = value;
  }
  return env;
}

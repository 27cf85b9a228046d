/** Which folder is the state root: the same answer for the client, the daemon and whatever they start. */

/**
 * `KIKI_PATHS__USER_STATE_DIR` (the environment form of `[paths] user_state_dir`), else `KIKI_STATE_DIR`, which kiki
 * itself gives to the agents it starts, else `~/.config/kiki`. Null when a relative path is given or HOME is unset.
 */
export function stateRoot(env: Readonly<Record<string, string | undefined>>): string | null {
  const given = env["KIKI_PATHS__USER_STATE_DIR"] || env["KIKI_STATE_DIR"];
  if (given) return given.startsWith("/") ? trimSlashes(given) : null;
  const home = env["HOME"];
  return home !== undefined && home.startsWith("/") ? `${trimSlashes(home)}/.config/kiki` : null;
}

function trimSlashes(path: string): string {
  return path.replace(/\/+$/, "");
}

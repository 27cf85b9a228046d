/** Which variables of an environment are configuration. Apart from what reads them: a command sends them unread. */

type Env = Readonly<Record<string, string | undefined>>;

/** Every other KIKI_ name says who or where a process is, and is no configuration. */
const CONFIGURATION = /^KIKI_[A-Za-z0-9_]*?[A-Za-z0-9]__/;

/** The variables that are configuration, for sending them along. */
export function configurationOf(env: Env): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    // As everywhere: an empty variable is one that is not set.
    if (value !== undefined && value !== "" && CONFIGURATION.test(name)) found[name] = value;
  }
  return found;
}

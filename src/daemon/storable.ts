/** Arguments of an approval as they are kept: what is secret, or may be, only as a hash. */

/** `env` may hold an API key; which one it is is the plan's business, that it is the same one the approval's. */
export function storable(args: object, sha256Hex: (text: string) => string): object {
  const { approval: _, env, ...rest } = args as { approval?: unknown; env?: unknown };
  return env === undefined ? rest : { ...rest, envSha256: sha256Hex(canonicalEnv(env)) };
}

function canonicalEnv(env: unknown): string {
  const entries = Object.entries(env as Record<string, string>);
  return JSON.stringify(entries.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
}

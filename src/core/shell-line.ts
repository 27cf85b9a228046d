/** Commands a person is asked to type, quoted for a POSIX shell. */

export function shellWord(text: string): string {
  return /^[A-Za-z0-9_./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

export function shellLine(argv: readonly string[]): string {
  return argv.map(shellWord).join(" ");
}

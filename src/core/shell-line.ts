/** Commands a person is asked to type, quoted for a POSIX shell. */

/** What printable() would take away (render/width.ts): the word must survive it. */
const UNPRINTABLE = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/** Control characters as `$'…'` writes them (bash, zsh, POSIX 2024): raw they would act on the terminal. */
export function shellWord(text: string): string {
  if (/^[A-Za-z0-9_./:@%+=,-]+$/.test(text)) return text;
  if (text.search(UNPRINTABLE) < 0) return `'${text.replaceAll("'", `'\\''`)}'`;
  const escaped = text.replace(/[\\']/g, "\\$&").replace(UNPRINTABLE, octal);
  return `$'${escaped}'`;
}

/** Three digits a byte, so that a digit that follows is not taken for one of them. */
function octal(control: string): string {
  const bytes = [...new TextEncoder().encode(control)];
  return bytes.map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
}

export function shellLine(argv: readonly string[]): string {
  return argv.map(shellWord).join(" ");
}

/** A thread's name as the last words of a `kk` command: one that begins with a dash is no flag. */
export function threadWord(name: string): string {
  return name.startsWith("-") ? `-- ${shellWord(name)}` : shellWord(name);
}

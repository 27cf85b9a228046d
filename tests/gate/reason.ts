/** A reason to refuse a call with everything in it that text can have. */

/** Text of that many UTF-16 units: lines, quotes, wide characters, double spaces; no white space at either end. */
export function reasonOf(units: number): string {
  const line = '[kiki] "quoted" \\ back, tab\t, é ✓ 🙂, two  spaces \n';
  const text = line.repeat(Math.ceil(units / line.length)).slice(0, units - 2);
  // Never half of a wide character.
  return `${text.replace(/[\ud800-\udbff]$/, "?")}..`;
}

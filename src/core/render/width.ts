/**
 * Text in terminal columns: wide characters count two, combining ones none. Wraps `Bun.stringWidth` (Bun 1.4.5),
 * which is a pure table look-up; nothing else of the runtime is used in core.
 */

const ELLIPSIS = "…";
const SEGMENTS = new Intl.Segmenter("en", { granularity: "grapheme" });

/** Columns `text` takes on a terminal. */
export function displayWidth(text: string): number {
  return Bun.stringWidth(text);
}

/**
 * What may go to a terminal: control characters, line breaks and bidirectional overrides become one space, so that
 * a thread name or a commit description can neither move the cursor nor break a row.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]+/gu, " ");
}

/** At most `columns` wide; what is cut off is replaced by one `…`. Never splits a character. */
export function truncate(text: string, columns: number): string {
  if (displayWidth(text) <= columns) return text;
  if (columns < 1) return "";
  let kept = "";
  let width = 0;
  for (const { segment } of SEGMENTS.segment(text)) {
    const next = width + displayWidth(segment);
    if (next > columns - 1) break;
    kept += segment;
    width = next;
  }
  return `${kept}${ELLIPSIS}`;
}

/** Padded with spaces on the right to `columns`; a longer text is left as it is. */
export function padEnd(text: string, columns: number): string {
  return text + " ".repeat(Math.max(0, columns - displayWidth(text)));
}

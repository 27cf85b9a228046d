/** Nonsense for one row, and the CHECK that refuses it. */

export interface CheckCase {
  table: string;
  text: string;
  /** Which nonsense. */
  what: string;
  sql: string;
}

/** `text`: how the CHECK's own text begins. `set`: what makes the row nonsense. */
export function row(
  table: string,
  where: string,
): (text: string, what: string, set: string) => CheckCase {
  return (text, what, set) => ({
    table,
    text,
    what,
    sql: `UPDATE ${table} SET ${set} WHERE ${where}`,
  });
}

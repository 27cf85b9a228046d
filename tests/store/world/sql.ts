/** SQL text of rows, for worlds that no code could have written step by step. */

/** 64 characters, as a SHA-256 in hex has. */
export function sha(letter: string): string {
  return letter.repeat(64).slice(0, 64);
}

/** 128 characters, as a jj operation id has. */
export function opId(letter: string): string {
  return letter.repeat(128);
}

export type Value = string | number | null;

export function literal(value: Value): string {
  if (value === null) return "NULL";
  return typeof value === "number" ? String(value) : `'${value.replaceAll("'", "''")}'`;
}

export function insert(table: string, row: Record<string, Value>): string {
  const values = Object.values(row).map(literal).join(", ");
  return `INSERT INTO ${table} (${Object.keys(row).join(", ")}) VALUES (${values});`;
}

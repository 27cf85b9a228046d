/** One thing a trigger refuses: whose words the refusal must be. Every statement but the last is accepted. */

export interface TriggerCase {
  trigger: string;
  what: string;
  sql: readonly string[];
}

export function refused(trigger: string, what: string, ...sql: readonly string[]): TriggerCase {
  return { trigger, what, sql };
}

/** One case for every column: each alone must be refused. */
export function fixed(
  trigger: string,
  table: string,
  where: string,
  columns: string,
): TriggerCase[] {
  return columns.split(" ").map((set) => {
    const [column, value] = set.split("=") as [string, string];
    return refused(
      trigger,
      `another ${column}`,
      `UPDATE ${table} SET ${column} = ${value} WHERE ${where}`,
    );
  });
}

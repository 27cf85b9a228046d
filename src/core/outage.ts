/** What a log of calls that could not be asked about comes to, in one line. */

export const ATTENTION_OUTAGE = "hook-outage";

export interface Outage {
  /** Complete lines of the whole log. */
  lines: number;
  /** Completes `"<thread>": `. */
  summary: string;
}

/**
 * `text`: a log of src/cmd/hook-outage.ts, one line per entry, `<ISO 8601 time> <event> <tool_use_id or "-"> <reason>`;
 * `told`: how many of its lines were told of before. null: nothing new. A log that was cut short since counts from its
 * beginning; a last line without its end is not there yet.
 */
export function outageOf(text: string, told: number): Outage | null {
  const lines = text.split("\n").slice(0, -1);
  const fresh = told > lines.length ? lines : lines.slice(told);
  if (fresh.length === 0) return null;
  const words = fresh.map((line) => line.split(" "));
  const passed = words.filter(([, event]) => event === "PreToolUse").length;
  const other = fresh.length - passed;
  const parts = [
    ...(passed === 0
      ? []
      : [`${passed} ${passed === 1 ? "call" : "calls"} ran without being asked about`]),
    ...(other === 0
      ? []
      : [`${other} ${other === 1 ? "event was" : "events were"} lost or refused`]),
  ];
  const [from, to] = [words[0]![0]!, words.at(-1)![0]!];
  const when = from === to ? `at ${from}` : `between ${from} and ${to}`;
  return {
    lines: lines.length,
    summary: `its hooks could not reach the daemon ${when}: ${parts.join(", ")}`,
  };
}

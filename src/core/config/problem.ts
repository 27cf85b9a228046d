/** A problem of the configuration as one line. */
import type { Problem, Source } from "./layer.ts";

/** `/path/config.toml:3`, with `column` also `:9`; the variable; "" for what has no place of its own. */
export function placeOf(source: Source, column = false): string {
  if (source.file === null) return source.variable ?? "";
  const line = source.line === null ? "" : `:${source.line}`;
  return `${source.file}${line}${column && line !== "" && source.column !== null ? `:${source.column}` : ""}`;
}

export function problemLine(problem: Problem): string {
  const { file, variable, layer, message } = problem;
  // A variable's message names it already.
  if (variable !== null) return message;
  return `${file === null ? layer : placeOf(problem, true)}: ${message}`;
}

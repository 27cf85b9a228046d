/** Figures and tables that all benchmarks share. A target is a ratio to a floor of the same run. */

/** One line of the report. Times are milliseconds. */
export interface Row {
  what: string;
  /** What it is compared with; "" for a floor itself. */
  floor: string;
  median: number;
  p95: number;
  /** Ratios to the floor's median and p95. */
  medianRatio: number | null;
  p95Ratio: number | null;
  /** Highest ratio, or highest milliseconds for a row without a floor; null where there is no target. */
  medianTarget: number | null;
  p95Target: number | null;
  met: boolean | null;
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function floorRow(what: string, times: readonly number[]): Row {
  return {
    what,
    floor: "",
    median: percentile(times, 0.5),
    p95: percentile(times, 0.95),
    medianRatio: null,
    p95Ratio: null,
    medianTarget: null,
    p95Target: null,
    met: null,
  };
}

export function ratioRow(
  what: string,
  times: readonly number[],
  floor: Row,
  targets: { median?: number; p95?: number } = {},
): Row {
  const row = floorRow(what, times);
  const medianRatio = row.median / floor.median;
  const p95Ratio = row.p95 / floor.p95;
  const verdicts = [
    ...(targets.median === undefined ? [] : [medianRatio <= targets.median]),
    ...(targets.p95 === undefined ? [] : [p95Ratio <= targets.p95]),
  ];
  return {
    ...row,
    floor: floor.what,
    medianRatio,
    p95Ratio,
    medianTarget: targets.median ?? null,
    p95Target: targets.p95 ?? null,
    met: verdicts.length === 0 ? null : verdicts.every(Boolean),
  };
}

/** A row whose target is in milliseconds; `tail` is the share that `p95` then stands for. */
export function absoluteRow(
  what: string,
  times: readonly number[],
  targets: { median: number; tail: number; share: number },
): Row {
  const tail = percentile(times, targets.share);
  const row = floorRow(what, times);
  return {
    ...row,
    p95: tail,
    medianTarget: targets.median,
    p95Target: targets.tail,
    met: row.median <= targets.median && tail <= targets.tail,
  };
}

const HEAD = ["what", "median ms", "p95 ms", "median ×", "target", "p95 ×", "target", ""];

export function table(rows: readonly Row[]): string {
  const number = (value: number | null, digits: number): string =>
    value === null ? "" : value.toFixed(digits);
  const target = (row: Row, value: number | null): string =>
    value === null ? "" : row.floor === "" ? `≤ ${value} ms` : `≤ ${value} ×`;
  const lines = [
    HEAD,
    ...rows.map((row) => [
      row.what,
      number(row.median, 2),
      number(row.p95, 2),
      number(row.medianRatio, 2),
      target(row, row.medianTarget),
      number(row.p95Ratio, 2),
      target(row, row.p95Target),
      row.met === null ? "" : row.met ? "met" : "MISSED",
    ]),
  ];
  const widths = HEAD.map((_, i) =>
    Math.max(...lines.map((line) => Bun.stringWidth(line[i] ?? ""))),
  );
  return lines
    .map((line) =>
      line
        .map((cell, i) => {
          const pad = " ".repeat((widths[i] ?? 0) - Bun.stringWidth(cell));
          return i === 0 ? cell + pad : pad + cell;
        })
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

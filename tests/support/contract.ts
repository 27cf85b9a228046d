/**
 * Contract suites: scenarios of one port, written once and run on every implementation of it. A fake may only be
 * stricter than the real thing, so a scenario without `only` holds for all; one that shows a strictness or a fault
 * which cannot be provoked on a real machine says so by `only`. `KIKI_TEST_TABLE=1` prints what ran where.
 */
import { afterAll, test } from "bun:test";

export interface Implementation<Subject> {
  /** `fake`, `real`, or the tool's name where there are several. */
  name: string;
  /** Why it cannot run here: the real tool is absent. Never a way around a failure. */
  skip?: string | null | undefined;
  /** A fresh subject, before every scenario. */
  make(): Subject | Promise<Subject>;
  /** After every scenario, also a failed one. */
  dispose?(subject: Subject): void | Promise<void>;
}

export interface Scenario<Subject> {
  /** `condition → outcome`. */
  name: string;
  run(subject: Subject): void | Promise<void>;
  /** Implementation names it is limited to; default all. */
  only?: readonly string[];
  /** Milliseconds; default bun's own limit. */
  timeoutMs?: number;
}

type Cell = "ok" | "FAILED" | "absent" | "-";

/** Defines `contract <port> (<implementation>): <scenario>` for every pair that applies. */
export function contract<Subject>(
  port: string,
  implementations: readonly Implementation<Subject>[],
  scenarios: readonly Scenario<Subject>[],
): void {
  checkNames(port, implementations, scenarios);
  const cells = new Map<string, Cell>();
  for (const implementation of implementations) {
    for (const scenario of scenarios) define(port, implementation, scenario, cells);
  }
  afterAll(() => {
    if (process.env["KIKI_TEST_TABLE"] !== "1") return;
    process.stdout.write(table(port, implementations, scenarios, cells));
  });
}

function define<Subject>(
  port: string,
  implementation: Implementation<Subject>,
  scenario: Scenario<Subject>,
  cells: Map<string, Cell>,
): void {
  const key = `${implementation.name}\n${scenario.name}`;
  if (scenario.only !== undefined && !scenario.only.includes(implementation.name)) return;
  const title = `contract ${port} (${implementation.name}): ${scenario.name}`;
  if (implementation.skip != null) {
    cells.set(key, "absent");
    test.skip(`${title} [${implementation.skip}]`, () => undefined);
    return;
  }
  const body = async (): Promise<void> => {
    cells.set(key, "FAILED");
    const subject = await implementation.make();
    try {
      await scenario.run(subject);
    } finally {
      await implementation.dispose?.(subject);
    }
    cells.set(key, "ok");
  };
  test(title, body, scenario.timeoutMs);
}

/** Two scenarios of one name would share a cell; an `only` nobody answers to would never run. */
function checkNames<Subject>(
  port: string,
  implementations: readonly Implementation<Subject>[],
  scenarios: readonly Scenario<Subject>[],
): void {
  const names = implementations.map((i) => i.name);
  const twice = [names, scenarios.map((s) => s.name)].find((all) => new Set(all).size < all.length);
  if (twice !== undefined)
    throw new Error(`contract ${port}: a name occurs twice in ${twice.join(", ")}`);
  const unknown = scenarios.flatMap((s) => s.only ?? []).find((name) => !names.includes(name));
  if (unknown !== undefined) throw new Error(`contract ${port}: no implementation ${unknown}`);
}

function table<Subject>(
  port: string,
  implementations: readonly Implementation<Subject>[],
  scenarios: readonly Scenario<Subject>[],
  cells: ReadonlyMap<string, Cell>,
): string {
  const head = ["scenario", ...implementations.map((i) => i.name)];
  const rows = scenarios.map((s) => [
    s.name,
    ...implementations.map((i) => cells.get(`${i.name}\n${s.name}`) ?? "-"),
  ]);
  const widths = head.map((_, at) => Math.max(...[head, ...rows].map((r) => r[at]!.length)));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, at) => cell.padEnd(widths[at]!))
      .join(" | ")
      .trimEnd();
  return `\ncontract ${port}\n${[head, ...rows].map(line).join("\n")}\n`;
}

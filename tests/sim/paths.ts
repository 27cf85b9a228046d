/**
 * The paths a large run must have gone through, and how often one is enough. Each is counted where the product itself
 * reports it: by the rows it commits, the points of its crash port, what its other ports answer, its hook's answers, its
 * log (observe.ts).
 */
import { AFTER_BLOCK, type BlockReason } from "../../src/core/barrier.ts";
import { CLASSIFICATIONS, INTENT, INTENT_STATES, PROBE_STATES } from "../../src/core/intent.ts";

/** Fewer passes than this prove little. */
export const ENOUGH = 100;
/** A run of at least so many schedules fails where a path has fewer. */
export const LARGE_RUN = 5_000;

export const DELIVERY_PATHS = [
  "pass",
  "deny-payload",
  "await",
  "bind",
  "rebind",
  "stay-blocked",
  "sub-agent copy",
  "acknowledged by a later turn",
  "acknowledged, lost MarkDelivered repaired",
  "matching receipt",
  "contrary receipt",
  "restart: attempt",
  "restart: echo",
  "restart: failed",
  "restart: exhausted",
  "retry-delivery",
  "discard-delivery",
  "unbindable batch",
  "passed/ file",
  "spooled event",
  "outage: denied at the marker",
] as const;
export type DeliveryPath = (typeof DELIVERY_PATHS)[number];

/** Of threads whose harness runs one call at a time. */
export const SERIAL_PATHS = [
  "bind",
  "matching receipt",
  "contrary receipt",
  "acknowledged",
  "completed by Stop",
  "receipt unreadable",
  "receipt unreadable, deferred",
  "receipt read later",
  "sibling held",
  "sibling released",
  "sibling denied with the blocked one",
  "violation",
  "capability lost",
  "unhooked edit",
] as const;
export type SerialPath = (typeof SERIAL_PATHS)[number];

const BLOCK_REASONS = Object.keys(AFTER_BLOCK) as BlockReason[];

/** What the product has no code for yet, with the reason. */
const NOT_YET: Readonly<Record<string, string>> = {
  "transition Detected → Acknowledged": "only detach and close give up what is merely detected",
  "block delivery-exhausted":
    "no incarnation lives beside an exhausted delivery (the oracle holds it); the rule is fail-closed",
};

export const PATHS: readonly string[] = [
  ...INTENT_STATES.map((state) => `intent ${state}`),
  ...INTENT.all.map(([from, to]) => `transition ${from} → ${to}`),
  ...[...PROBE_STATES, "drift"].map((state) => `probe ${state}`),
  ...CLASSIFICATIONS.map((kind) => `classification ${kind}`),
  ...DELIVERY_PATHS.map((path) => `delivery ${path}`),
  ...BLOCK_REASONS.map((reason) => `block ${reason}`),
  ...SERIAL_PATHS.map((path) => `serial ${path}`),
];

/** Everything counted under this begins so; what is not in `PATHS` is shown beside them and asked of nobody. */
export const COUNTED = "path ";

export interface PathCount {
  path: string;
  count: number;
  /** Too few; null: no code yet, or enough. */
  missing: boolean;
  notYet: string | null;
}

export function pathCounts(counted: ReadonlyMap<string, number>): PathCount[] {
  return PATHS.map((path) => {
    const count = counted.get(COUNTED + path) ?? 0;
    const notYet = NOT_YET[path] ?? null;
    return { path, count, notYet, missing: notYet === null && count < ENOUGH };
  });
}

/** One line for each path; those below `ENOUGH` are marked. Then what else was counted. */
export function pathTable(counted: ReadonlyMap<string, number>): string[] {
  const known = pathCounts(counted);
  const line = (count: number, path: string, mark = ""): string =>
    `${String(count).padStart(9)}  ${path}${mark}`;
  const besides = [...counted.keys()]
    .filter((key) => key.startsWith(COUNTED) && !PATHS.includes(key.slice(COUNTED.length)))
    .sort()
    .map((key) => line(counted.get(key)!, key.slice(COUNTED.length)));
  return [
    ...known.map(({ path, count, missing, notYet }) =>
      line(count, path, notYet !== null ? `  (not there yet: ${notYet})` : missing ? "  <" : ""),
    ),
    ...(besides.length === 0 ? [] : ["besides:", ...besides]),
  ];
}

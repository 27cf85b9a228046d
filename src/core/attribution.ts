/**
 * OpAttribution: whose operation one is. A token is durable before the command that carries it in its arguments runs;
 * a staged operation is known by id before it is integrated. Nothing is concluded from an operation's place in the
 * graph: operations of one handler may lie on several branches, with foreign ones between them.
 */
import type { ParentsOf } from "./ancestry.ts";
import type { OpId } from "./ids.ts";
import { maximal } from "./op-graph.ts";

const TOKEN = /kiki\.token=([0-9a-f-]{36})/;

/** How a command carries its token. */
export function tokenArguments(token: string): readonly [string, string] {
  return ["--config", `kiki.token=${token}`];
}

/**
 * The commands that carry the token. Who only speaks of it (a person's search) is none; where the system does not show
 * arguments one by one (`argvOf` is null), whoever has it among them counts.
 */
export function commandsCarrying<P>(
  token: string,
  processes: { withArgument(text: string): P[]; argvOf(process: P): readonly string[] | null },
): P[] {
  const [option, setting] = tokenArguments(token);
  return processes.withArgument(token).filter((process) => {
    const argv = processes.argvOf(process);
    return argv === null || argv.some((word, at) => word === setting && argv[at - 1] === option);
  });
}

/** The token in an operation's recorded arguments, whether or not it is one of kiki's. */
export function tokenIn(args: string): string | null {
  return TOKEN.exec(args)?.[1] ?? null;
}

export interface KnownOp {
  id: OpId;
  args: string;
}

/** What is durable about kiki's own operations. */
export interface Attributions {
  /** Whether the handler of a token still owes the interpretation; null: not a token of kiki's. */
  isLive(token: string): boolean | null;
  /** The token of an operation that was known by id before it was published. */
  stagedAs(op: OpId): string | null;
}

/** The durable token an operation belongs to; null for everybody else's, those with a foreign token included. */
export function attributedTo(op: KnownOp, known: Attributions): string | null {
  const token = known.stagedAs(op.id) ?? tokenIn(op.args);
  return token !== null && known.isLive(token) !== null ? token : null;
}

/** Who interprets an operation: its handler while the token is live, else the watcher. */
export function interpreter(op: KnownOp, known: Attributions): "watcher" | "handler" {
  const token = attributedTo(op, known);
  return token !== null && known.isLive(token) === true ? "handler" : "watcher";
}

/** Every operation of a token, wherever it is in the graph. */
export function operationsOf(
  token: string,
  ops: Iterable<KnownOp>,
  known: Attributions,
): Set<OpId> {
  const own = new Set<OpId>();
  for (const op of ops) if (attributedTo(op, known) === token) own.add(op.id);
  return own;
}

/**
 * The views a handler compares: all states its operations began from, and all they ended in. A parent that is itself
 * one of `own` is in the middle; every other parent of every operation is a beginning, none is preferred.
 */
export function spanOf(
  own: ReadonlySet<OpId>,
  parentsOf: ParentsOf,
): { before: OpId[]; after: OpId[] } {
  const outside = [...own].flatMap((id) => parentsOf(id).filter((parent) => !own.has(parent)));
  return { before: [...new Set(outside)].sort(), after: maximal([...own], parentsOf) };
}

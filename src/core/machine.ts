/**
 * State machines as data. A machine is a table: each state with the states it may move to. A move that the table does
 * not have does not compile; one computed at run time throws by name. What else a move needs (a proof, a person) is
 * the business of the module that owns the table.
 */

/** Every state of `S` with the states it may move to; leaving one out does not compile. */
export type Moves<S extends string> = Readonly<Record<S, readonly S[]>>;

/** The states reachable in one move from `F`. */
export type Next<T extends Record<string, readonly string[]>, F extends keyof T> = T[F][number];

export interface Machine<T extends Record<string, readonly string[]>> {
  readonly name: string;
  readonly states: readonly (keyof T & string)[];
  /** States a record may begin in. */
  readonly initial: readonly (keyof T & string)[];
  /** States without a move out. */
  readonly terminal: readonly (keyof T & string)[];
  /** Every legal move. */
  readonly all: readonly (readonly [from: keyof T & string, to: keyof T & string])[];
  can(from: keyof T & string, to: keyof T & string): boolean;
  /** Throws by name on a move the table does not have. */
  move<F extends keyof T & string>(from: F, to: Next<T, F>): Next<T, F>;
}

export function machine<const T extends Record<string, readonly string[]>>(
  name: string,
  initial: readonly (keyof T & string)[],
  moves: T,
): Machine<T> {
  type State = keyof T & string;
  const states = Object.keys(moves) as State[];
  const targets = (from: State): readonly string[] => moves[from] ?? [];
  return {
    name,
    states,
    initial,
    terminal: states.filter((s) => targets(s).length === 0),
    all: states.flatMap((from) => targets(from).map((to) => [from, to as State] as const)),
    can: (from, to) => targets(from).includes(to),
    move(from, to) {
      if (!targets(from).includes(to)) {
        throw new Error(`illegal ${name} transition ${from} → ${String(to)}`);
      }
      return to;
    },
  };
}

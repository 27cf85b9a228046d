/** How likely what is in one schedule. */
export interface Rates {
  threads: number;
  park: number;
  fail: number;
  /** Weight of daemons that die. */
  kill: number;
  /** Weight of people. */
  people: number;
  /** Weight of several operation heads. */
  heads: number;
  /** Probability of a fault instead of an agent's step. */
  faults: number;
  /** Weight of what a person does to an agent: Esc, /clear, exit, crash. */
  rude: number;
  /** Weight of people who look after what waits for them. */
  repairs: number;
  /** Probability that a tool leaves something running. */
  children: number;
  /** Probability that a harness garbles the text of a refused call, and that it runs one all the same. */
  garbles: number;
  runsDenied: number;
  /** Probability that a harness that is started anew ends before it has said anything. */
  frail: number;
  /** Weight of `passed/` files that are lost, and of workspaces that a probe cannot answer for. */
  losses: number;
  /** Weight of whole rounds: a parent moves, and an agent that follows it works on. */
  rounds: number;
  /** Probability that a model's answer ends its turn. */
  brief: number;
  /** Weight of each agent's going on. */
  busy: number;
  /** Probability that a model answers with a sub-agent. */
  subs: number;
  /** Weight of `/clear`. */
  clears: number;
  /** Probability, at each step of an agent that has answered nothing yet, that a person breaks off what it was told by. */
  takesBack: number;
  /** Where daemons die rather than anywhere; a regular expression on the names of calls. */
  doom: string | null;
  /** Faults of an agent's hooks and batches that are preferred where they are possible: pattern, probability. */
  prefer: readonly (readonly [string, number])[];
  /** Probability that a thread's harness runs one call at a time, and that its model asks for several all the same. */
  serial: number;
  siblings: number;
  /** Probability that its session record cannot be read from a step on, and that its model edits without a hook. */
  records: number;
  unhooked: number;
  /** Commands may outlast every patience: time passes while they are parked, or without their daemon. */
  slow: boolean;
}

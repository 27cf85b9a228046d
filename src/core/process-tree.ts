/**
 * Which processes belong to a thread, decided from one sample of the process table.
 *
 * Parent links find every descendant that still has its ancestors. A process whose parent has ended is handed to
 * another one (process 1, or a subreaper, which is always an ancestor of the pane), so two more traces are followed:
 * the session of the pane, which only birth inside it gives, and an entry of the environment that kiki gave the agent
 * and that its descendants inherit. A daemon that has left the session *and* cleaned its environment leaves no trace;
 * what it holds in the workspace is what then tells (`Processes.holders`).
 */

/** Identity is (pid, start time): a pid alone is reused. */
export interface ProcessIdentity {
  pid: number;
  /** Kernel start time in clock ticks since boot (Linux `/proc/<pid>/stat` field 22), as a decimal string. */
  startTime: string;
}

/** One process of a sample. Zombies and kernel threads are in no sample. */
export interface ProcessFacts extends ProcessIdentity {
  parent: number;
  pgid: number;
  session: number;
  /** Belongs to the user kiki runs as. */
  mine: boolean;
  /** The kernel's name for it, at most 15 bytes; for people and for telling jj and git. */
  name: string;
  /** Whether its environment has one of the entries asked for. `no` for a process that is not `mine`. */
  marked: "yes" | "no" | "unreadable";
}

export interface TreeQuery {
  /** The inert wrappers of the thread's panes. They are never members. */
  roots: readonly ProcessIdentity[];
  /**
   * Start time before which nothing can have been born of the roots; usually the oldest root's. null where there is no
   * root any more and everything is possible.
   */
  since: string | null;
  /** Keys (`keyOf`) of processes seen as members before: a parent that ended since does not make them strangers. */
  known: ReadonlySet<string>;
}

export interface ProcessTree {
  /** Every member, parents before their children. */
  members: ProcessFacts[];
  /** Same-user processes that may belong and cannot be told: their environment is closed to kiki. */
  unprovable: ProcessFacts[];
  /** Roots that are not there (any more): what they left behind cannot be told apart by parent links. */
  missingRoots: ProcessIdentity[];
}

export function keyOf(one: ProcessIdentity): string {
  return `${one.pid}:${one.startTime}`;
}

/** True when both name the same process. */
export function sameProcess(a: ProcessIdentity, b: ProcessIdentity): boolean {
  return a.pid === b.pid && a.startTime === b.startTime;
}

/** The sample by pid. */
export class ProcessTable {
  readonly all: readonly ProcessFacts[];
  readonly #byPid: Map<number, ProcessFacts>;
  readonly #children = new Map<number, ProcessFacts[]>();

  constructor(sample: readonly ProcessFacts[]) {
    this.all = sample;
    this.#byPid = new Map(sample.map((p) => [p.pid, p]));
    for (const one of sample) {
      const siblings = this.#children.get(one.parent);
      if (siblings === undefined) this.#children.set(one.parent, [one]);
      else siblings.push(one);
    }
  }

  get(pid: number): ProcessFacts | undefined {
    return this.#byPid.get(pid);
  }

  /** The process itself, not another one under its number. */
  find(identity: ProcessIdentity): ProcessFacts | undefined {
    const found = this.#byPid.get(identity.pid);
    return found !== undefined && sameProcess(found, identity) ? found : undefined;
  }

  children(pid: number): readonly ProcessFacts[] {
    return this.#children.get(pid) ?? [];
  }

  /** Pids above `pid`, nearest first, up to the first that is not in the sample. */
  ancestors(pid: number): number[] {
    const above: number[] = [];
    // A sample is not one instant: a reused number could close a circle.
    const seen = new Set([pid]);
    for (let at = this.get(pid)?.parent; at !== undefined && at > 0 && !seen.has(at);) {
      seen.add(at);
      above.push(at);
      at = this.get(at)?.parent;
    }
    return above;
  }

  /** `pid` and everything below it. */
  descendants(pid: number): Set<number> {
    const found = new Set([pid]);
    for (const at of found) for (const child of this.children(at)) found.add(child.pid);
    return found;
  }
}

export function processTree(table: ProcessTable, query: TreeQuery): ProcessTree {
  const roots = query.roots.flatMap((root) => table.find(root) ?? []);
  const above = new Set([0, 1, ...roots.flatMap((root) => table.ancestors(root.pid))]);
  const rootPids = new Set(roots.map((root) => root.pid));
  const members = collect(table, query, roots, above, rootPids);
  const unprovable = table.all.filter(
    (one) =>
      one.mine &&
      one.marked === "unreadable" &&
      !members.has(one.pid) &&
      !rootPids.has(one.pid) &&
      !above.has(one.pid) &&
      !provedForeign(table, one, query.since, above),
  );
  return {
    members: parentsFirst(table, members),
    unprovable,
    missingRoots: query.roots.filter((root) => table.find(root) === undefined),
  };
}

/** Repeats until nothing is added: a member found by session has children, and a session of its own may follow. */
function collect(
  table: ProcessTable,
  query: TreeQuery,
  roots: readonly ProcessFacts[],
  above: ReadonlySet<number>,
  rootPids: ReadonlySet<number>,
): Set<number> {
  const members = new Set<number>();
  const add = (one: ProcessFacts): void => {
    if (!above.has(one.pid) && !rootPids.has(one.pid)) members.add(one.pid);
  };
  for (const one of table.all) {
    if (one.marked === "yes" || query.known.has(keyOf(one))) add(one);
  }
  // A session the roots share with what is above them is the person's, not the pane's.
  const foreign = new Set([...above].flatMap((pid) => table.get(pid)?.session ?? []));
  const owned = new Set(roots.map((root) => root.session).filter((id) => !foreign.has(id)));
  for (let size = -1; size !== members.size;) {
    size = members.size;
    for (const root of roots) for (const pid of table.descendants(root.pid)) addPid(pid);
    for (const member of members) {
      for (const pid of table.descendants(member)) addPid(pid);
      const session = table.get(member)?.session ?? 0;
      if (session > 0 && !foreign.has(session) && ledFromInside(session)) owned.add(session);
    }
    for (const one of table.all) if (owned.has(one.session)) add(one);
  }
  return members;

  function addPid(pid: number): void {
    const one = table.get(pid);
    if (one !== undefined) add(one);
  }
  /** A session's number stays taken while it has members, so an absent leader has ended and is nobody else. */
  function ledFromInside(session: number): boolean {
    const leader = table.get(session);
    return leader === undefined || members.has(session) || rootPids.has(session);
  }
}

/**
 * A process is born of its parent, or was handed to one of `above` when its parent ended. So on the way up, below the
 * first of those, everything is of one family: it is foreign when one of them began before the roots, or shows an
 * environment that is not the agent's.
 */
function provedForeign(
  table: ProcessTable,
  one: ProcessFacts,
  since: string | null,
  above: ReadonlySet<number>,
): boolean {
  for (const pid of [one.pid, ...table.ancestors(one.pid)]) {
    if (above.has(pid)) return false;
    const at = table.get(pid);
    if (at === undefined) return false;
    if (since !== null && Number(at.startTime) < Number(since)) return true;
    if (at.marked === "no") return true;
  }
  return false;
}

function parentsFirst(table: ProcessTable, members: ReadonlySet<number>): ProcessFacts[] {
  return table.all
    .filter((one) => members.has(one.pid))
    .map((one) => ({ one, depth: depthOf(table, one.pid) }))
    .toSorted((a, b) => a.depth - b.depth || a.one.pid - b.one.pid)
    .map(({ one }) => one);
}

/** How many ancestors a process has in the sample. */
export function depthOf(table: ProcessTable, pid: number): number {
  return table.ancestors(pid).length;
}

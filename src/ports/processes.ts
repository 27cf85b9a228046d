/** Facts about processes of this user. Identity is (pid, start time): a pid alone is reused. */
export interface ProcessIdentity {
  pid: number;
  /** Kernel start time in clock ticks since boot (Linux `/proc/<pid>/stat` field 22), as a decimal string. */
  startTime: string;
}

export interface Processes {
  /** null when no such process. */
  identify(pid: number): ProcessIdentity | null;
  parentOf(pid: number): number | null;
  /** Identities of processes whose argument vector contains `text`; used to await kiki's own surviving jj. */
  withArgument(text: string): ProcessIdentity[];
}

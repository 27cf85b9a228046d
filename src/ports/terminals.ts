/** Where a process shows what it shows: what a presenter has to prove about itself. */

export interface OnTerminal {
  /** With the pid the identity of the process, as `Processes.identify` gives it. */
  startTime: string;
  /** Equal for processes of one session on one terminal, never reused. null: no controlling terminal. */
  terminal: string | null;
  /** Its process group owns the terminal. */
  foreground: boolean;
  /**
   * Whether its environment, as it was started, has what kiki gives an agent and its descendants (`KIKI_INCARNATION`).
   * null: it cannot be read.
   */
  agentMark: boolean | null;
}

export interface Terminals {
  /** null when there is no such process, or it is another user's. */
  look(pid: number): OnTerminal | null;
}

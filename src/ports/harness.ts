/** The boundary with a coding agent (harness chapter). One adapter per harness; the orchestrator is neutral. */
import type { Proof } from "../core/proofs.ts";

export const HARNESSES = ["claude-code", "codex"] as const;
export type HarnessName = (typeof HARNESSES)[number];

export type { Capabilities } from "../core/proofs.ts";

/**
 * How calls are grouped into batches. `reported`: the harness runs calls of one response side by side and says when
 * they are over (Claude Code). `serial`: every call is a batch of its own; the session record tells which response a
 * call belongs to and what the model got for it, and no event says that a refused call is over (Codex).
 */
export type Batching = "reported" | "serial";

/** What a serial harness's own session record says about calls. */
export interface SessionRecord {
  /** Responses that were complete before the call's line, by call id: calls of one response have the same number. */
  responses: ReadonlyMap<string, number>;
  /** Exactly what the model gets as the result, by call id; what is no refusal may be cut after 4,096 characters. */
  outputs: ReadonlyMap<string, string>;
  /** What a refusal repeats of a call (the command, or the whole patch), by call id; none for tools it only names. */
  commands: ReadonlyMap<string, string>;
  /**
   * The provider of the model refused the request of this turn, in these words, and has answered none so far; null: it has
   * answered, or refused nothing.
   */
  refusal: { turn: string | null; said: string } | null;
}

/** What a raw hook payload means. `agentId` is null for the main agent. */
export type HarnessEvent =
  | { type: "SessionStarted"; sessionId: string; source: string; transcriptPath: string | null }
  | { type: "UserPrompt"; sessionId: string; promptId: string | null; prompt: string }
  | {
      type: "PreTool";
      sessionId: string;
      agentId: string | null;
      promptId: string | null;
      toolUseId: string;
      toolName: string;
      /** The session record that shows this call; null when the harness does not say. */
      recordPath: string | null;
    }
  | {
      type: "PostTool";
      sessionId: string;
      agentId: string | null;
      promptId: string | null;
      toolUseId: string;
      toolName: string;
      failed: boolean;
    }
  | {
      type: "BatchClosed";
      sessionId: string;
      agentId: string | null;
      promptId: string | null;
      /** `response` is the string the model gets as that call's result. */
      calls: { toolUseId: string; toolName: string; response: string }[];
    }
  | { type: "TurnStopped"; sessionId: string; agentId: string | null; promptId: string | null }
  /** The person broke the turn off: its calls got no result and nothing more comes of it. */
  | { type: "TurnInterrupted"; sessionId: string; promptId: string | null }
  | { type: "Attention"; sessionId: string; kind: string; message: string }
  | { type: "SessionEnded"; sessionId: string; reason: string }
  | { type: "Other"; name: string };

/** `boundary`: "restart" gives soft delivery up and keeps the person's model as it is. `auth`: copy, link or env:NAME. */
export interface CodexSettings {
  boundary: "soft" | "restart";
  auth: string;
}

export interface LaunchRequest {
  repoId: string;
  threadId: string;
  threadName: string;
  incarnation: string;
  incarnationSecret: string;
  /** Harness conversation id; null for a new conversation that the harness itself will name. */
  sessionId: string | null;
  resume: boolean;
  workspaceRoot: string;
  /** `harness/<thread>/`, 0700, outside the workspace. */
  folder: string;
  /** Absolute path of the harness executable. */
  executable: string;
  prompt: string | null;
  extraArgs: readonly string[];
  /** Allow-listed environment of the person's shell. */
  env: Record<string, string>;
  briefing: string | null;
  /** `[agent.codex]`; another harness has no use for it. */
  codex?: CodexSettings;
  /** What was proved of this version; absent: all that the adapter itself relies on. */
  proved?: readonly Proof[];
  /** `[agent.claude-code]`; another harness has no use for it. */
  claudeCode?: { pretrust: boolean };
  hook: {
    executable: string;
    socket: string;
    credentialFile: string;
    errorLog: string;
    passedFolder: string;
    spoolFolder: string;
    barrierFile: string;
    /** `kk`, with which a hook starts a daemon that is gone. */
    kk: string;
    /** User state root. */
    stateDir: string;
  };
}

export interface LaunchSpec {
  argv: string[];
  env: Record<string, string>;
  cwd: string;
  /** Hex SHA-256 over every generated file, the argv and the exclusivity evidence. */
  settingsFingerprint: string;
  /** Files whose bytes the fingerprint covers, for re-checking at the gate. */
  files: string[];
  /** Variables that show in a running process that it is this very start's. */
  marks?: readonly string[];
  /** What was looked at for this very launch. The incarnation can what these and the version's proofs together give. */
  proofs: readonly Proof[];
}

/** The quick behavioural proofs of one executable. */
export interface ProofRequest {
  /** Absolute path of the harness executable, and the version it says it is. */
  executable: string;
  version: string;
  /** Of the person's environment at most PATH is used: no key, login, proxy or configuration of theirs. */
  env: Record<string, string>;
  /** Empty, 0700, absolute, of this run alone; the caller removes it. */
  folder: string;
  /** All of it ends within this, with every process it started; what was not seen by then is `not-tried`. */
  timeoutMs: number;
}

/** What a witness weaker than hooks says about the main agent's turn; null: nothing that counts. */
export type TurnSeen = "working" | "ended" | null;

/** Where a harness says by no hook that a turn was broken off: what else shows it (harness chapter, "Agent status"). */
export interface TurnWitnesses {
  /** Absolute path of a conversation's session record; null when it cannot be said. `env`: as the agent has it. */
  recordPath(of: {
    env: Record<string, string>;
    workspaceRoot: string;
    sessionId: string;
  }): string | null;
  /** What the end of the session record says. */
  inRecord(path: string): TurnSeen;
  /** What captured pane text says. */
  inPane(paneText: string): TurnSeen;
}

export interface Harness {
  readonly name: HarnessName;
  readonly batching: Batching;
  /**
   * Who names a conversation. `kiki`: its id is chosen before the start. `harness`: it is known from the first
   * `SessionStarted`, which comes with the first prompt; a start without one is ready by other proofs.
   */
  readonly naming: "kiki" | "harness";
  /**
   * First line of `--version`, parsed; throws KikiError `harness-version`. `env` is the person's, as the agent will
   * get it: a harness that is a script finds its interpreter on their PATH, not on the daemon's.
   */
  version(executable: string, env: Record<string, string>): Promise<string>;
  /** Of the adapter itself: proofs made with another one say nothing about this one. */
  readonly adapterVersion: string;
  /** What the release gate has proved for exactly this version; null for one that it never ran. */
  gateProofs(version: string): readonly Proof[] | null;
  /**
   * Proofs of a version the gate never ran: the program itself is looked at, in folders of its own, and whatever model
   * it asks is kiki's, on loopback. Never throws: what cannot be looked at is `not-tried`, with the reason.
   */
  prove(request: ProofRequest): Promise<readonly Proof[]>;
  /** Refuses by name (KikiError `harness-arg`) a launch argument that touches settings, hooks, trust or session. */
  checkArguments(extraArgs: readonly string[]): void;
  /**
   * Folders of a repository, by its main workspace's root, that the harness's own sandbox is told to let the agent write,
   * because jj does not work without; for the plan a person confirms. Absent: the harness is told nothing of the kind.
   */
  writesOutside?(repoRoot: string): readonly string[];
  /** Writes the generated settings and the hook launcher; throws `hooks-not-exclusive` naming the file otherwise. */
  prepare(request: LaunchRequest): Promise<LaunchSpec>;
  /**
   * No incarnation of the thread runs any more: gives back what `prepare` changed outside `folder` (as in `LaunchRequest`).
   * Idempotent. A line for a person when that was not possible; then nothing was changed. Absent: there is never anything.
   */
  release?(folder: string): string | null;
  /** Name of the tool by which the main agent starts another; absent: there are no others. */
  readonly agentTool?: string;
  interpretEvent(raw: unknown): HarnessEvent;
  /** What the session record at this absolute path says now; null: it cannot be read, which proves nothing. */
  record(path: string): SessionRecord | null;
  /** Path of a conversation's session record; null: there is none yet. Absent: `refusal` says nothing there. */
  recordOf?(folder: string, sessionId: string): string | null;
  /**
   * True where a conversation's record is provably not there any more (deleted by age or by hand, or never written), so that
   * a start that resumes it would end at once. `env`: as the agent has it; `folder` as in `LaunchRequest`.
   */
  conversationGone(of: { env: Record<string, string>; folder: string; sessionId: string }): boolean;
  /** Bytes the hook prints on stdout so that the harness refuses the call and hands `reason` to the model. */
  denyOutput(reason: string): string;
  /**
   * Exactly what the model gets as the result of a call denied with `reason`, in this version's wrapper. `command`: what
   * the session record says that a refusal repeats of the call; harnesses whose refusals repeat nothing ignore it.
   */
  expectedResult(reason: string, call: { toolName: string; command?: string | undefined }): string;
  /**
   * How the result of a refused call may begin, whatever the reason, also where the harness took the call back by itself:
   * with anything else the tool ran.
   */
  refusalPrefixes(call: { toolName: string }): readonly string[];
  /** Absent where hooks tell of every end of a turn. */
  readonly turns?: TurnWitnesses;
  /** Recognises a start-up dialog that waits for the person, in captured pane text. */
  startupDialog(paneText: string): string | null;
  /** Whether captured pane text shows that the harness takes input; asked only where `naming` is `harness`. */
  composer(paneText: string): boolean;
}

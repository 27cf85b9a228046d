/** What one reconciliation works on, and what it hands to the record. */
import type { ChangeId, CommitId, OpId } from "../core/ids.ts";
import type { PayloadFacts } from "../core/payload.ts";
import type { RecoveryProgress } from "../core/recovery.ts";
import type { CommitView, JjRepo } from "../ports/jj.ts";
import type { CascadeThread, Edge } from "../store/edges.ts";
import type { IntentRow } from "../store/intents.ts";
import type { CascadeDeps } from "./deps.ts";
import type { Views } from "./views.ts";

/** What is durable before the first mutation. */
export interface ReconcilePlan {
  /** The view before the first of its operations that is not recorded yet; "": before any plan. */
  startOp: OpId;
  childHead: CommitId;
  fromBase: CommitId;
  toBase: CommitId;
  kind: "NativeRewrite" | "ParentAdvance" | "AlreadyAligned";
  tokens: string[];
  /** So many of the tokens are from before the newest choice of a recovery. */
  settled?: number;
  chain: CommitId[];
  stagedOp: OpId | null;
  /** Second names of what an update of clean files may replace, until it is known that nobody wrote into them. */
  kept?: KeptFiles;
  /** A command that replaces files, from before it begins until it has ended well. */
  writing?: Writing;
  /** Since edits were found on files that jj had left behind. */
  recovery?: RecoveryProgress;
}

export interface Writing {
  token: string;
  /** Operation the files are from when it begins, and what the files are then. */
  checkoutOp: OpId;
  fingerprint: string;
  /** Operation it is given for, and the commit it is to bring the files to there. */
  at: OpId;
  to: CommitId;
}

export interface KeptFiles {
  folder: string;
  /** The commit whose files they are, byte for byte. */
  from: CommitId;
  /** `sha256` where the stamp alone would not show the next write. */
  entries: { path: string; stamp: string; sha256: string | null }[];
}

export interface Scene {
  deps: CascadeDeps;
  views: Views;
  jj: JjRepo;
  intent: IntentRow;
  edge: Edge;
  child: CascadeThread;
  parent: CascadeThread;
  plan: ReconcilePlan;
  /** Operation the newest probe of the child's files was about; "" before the first. */
  probedOp: OpId;
  /** Fingerprint of the files before the newest command, or of the newest look that is durable; null before the first. */
  before: string | null;
  /** A command of this intent may have recorded edits beside the visible history. */
  landed: boolean;
  /** Paths that a stopped process of the agent keeps open. */
  open: readonly string[];
  /** The child's head in the staged operation, which was found to stand on `toBase` there. */
  staged: { op: OpId; toBase: CommitId; head: CommitView } | null;
}

export interface ReconcileResult {
  /** Operation the result was verified in. */
  op: OpId;
  head: { commitId: CommitId; changeId: ChangeId; conflict: boolean };
  toBase: CommitId;
  action: PayloadFacts["action"];
  adoptedEdits: boolean;
}

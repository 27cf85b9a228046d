/**
 * A harness's session record, read as it grows (transcript chapter). Records are lines of JSON, split on byte 0x0A only,
 * written by somebody else: lines may be torn, huge, broken or of unknown types, and the file may be cut, replaced or
 * gone. Nothing of that is an error; what could not be read is counted, and its neighbours are read.
 */

/** One record file of one session. */
export interface TranscriptSource {
  sessionId: string;
  /** Absolute path. */
  path: string;
}

/** Up to where a record was read. Stored with the rows of the same transaction. */
export interface TranscriptPosition {
  /** Which file it was: another one under the same path starts again at 0. Device and inode on a real disk. */
  file: string;
  /** Bytes before it are done with: the end of a whole line. */
  offset: number;
}

export interface TranscriptEntry {
  /** Parsed JSON, as it was written. */
  value: unknown;
  /** Where its line begins. */
  offset: number;
}

export interface TranscriptChunk {
  entries: TranscriptEntry[];
  /** null when there is no such file (any more): the stored position stays what it is. */
  position: TranscriptPosition | null;
  /** The file was cut or replaced: it was read from its beginning, and entries may be ones that are known already. */
  restarted: boolean;
  /** More whole lines follow: ask again. */
  more: boolean;
  /** Bytes that were no UTF-8, each replaced by U+FFFD. */
  replacedBytes: number;
  /** Lines that were not taken: over the size limit, or no JSON. */
  skippedLines: number;
}

/** One message between a person and an agent. Tool calls and results, thinking and deltas never become one. */
export interface TranscriptMessage {
  /** The harness's own id of the row; the same message has the same key in every reading. */
  dedupKey: string;
  author: "human" | "agent";
  text: string;
  /** What the record says about when, in milliseconds; null when it says nothing. May go backwards. */
  at: number | null;
}

export const TRANSCRIPT_LIMITS = {
  /** A longer line is skipped. */
  lineBytes: 4 * 1024 * 1024,
  /** One chunk reads no more than this, or one line. */
  chunkBytes: 8 * 1024 * 1024,
} as const;

export interface TranscriptAdapter {
  /**
   * The records of exactly this session, started in exactly this workspace, main agent only. `home` is the harness's
   * configuration folder for the thread. Empty when there is none yet.
   */
  discover(input: {
    home: string;
    workspaceRoot: string;
    sessionId: string;
  }): Promise<TranscriptSource[]>;
  /** What was appended since `from` (null: from the beginning). A last line without its end is left for the next time. */
  tail(source: TranscriptSource, from: TranscriptPosition | null): Promise<TranscriptChunk>;
  /** The end of the last whole line now, to start from without reading what is there. null when there is no file. */
  position(source: TranscriptSource): Promise<TranscriptPosition | null>;
  /** The messages of one entry: none for everything that is not what a person typed or an agent said. */
  project(entry: TranscriptEntry): TranscriptMessage[];
}

/** Something may have changed under a folder. Lossy by contract: a receiver re-lists, and polls as a fallback. */
export interface FsEvents {
  /**
   * Resolves once armed. `reason` on failure (inotify exhausted, no native watcher): the caller goes on polling.
   * `onLost`: events were dropped or will come no more; the caller re-lists, polls, and may watch anew.
   */
  watch(
    folder: string,
    onChange: () => void,
    onLost?: (reason: string) => void,
  ): Promise<{ armed: boolean; reason?: string; stop(): Promise<void> }>;
}

/**
 * Events of a file system in memory. Lossy as the port allows, on purpose: a burst is one call, a change may be told
 * late or never, and a machine may have no watch left.
 */
import type { FsEvents } from "../../src/ports/fs-events.ts";

interface Watch {
  folder: string;
  onChange: () => void;
  onLost: (reason: string) => void;
  due: boolean;
}

export class FakeFsEvents implements FsEvents {
  /** Changes wait until a test says `deliver`; otherwise they are told in the next turn of the event loop. */
  held = false;
  /** This many of the next changes are told to nobody. */
  losing = 0;
  /** Why nothing can be watched any more, for example `inotify: no space left on device`. */
  exhausted: string | null = null;
  readonly #exists: (folder: string) => boolean;
  readonly #watches = new Set<Watch>();

  /** `exists` says which folders there are; default all. */
  constructor(exists: (folder: string) => boolean = () => true) {
    this.#exists = exists;
  }

  async watch(
    folder: string,
    onChange: () => void,
    onLost: (reason: string) => void = () => undefined,
  ): Promise<{ armed: boolean; reason?: string; stop(): Promise<void> }> {
    if (!folder.startsWith("/")) throw new Error(`not an absolute folder: ${folder}`);
    const why = this.exhausted ?? (this.#exists(folder) ? null : `ENOENT: ${folder}`);
    if (why !== null) return { armed: false, reason: why, stop: () => Promise.resolve() };
    const watch: Watch = { folder, onChange, onLost, due: false };
    this.#watches.add(watch);
    return {
      armed: true,
      stop: () => {
        this.#watches.delete(watch);
        return Promise.resolve();
      },
    };
  }

  /** Folders that are watched now. */
  get watched(): string[] {
    return [...this.#watches].map((w) => w.folder);
  }

  /** Something changed at a path. Told to whoever watches a folder above it, once per burst. */
  changed(path: string): void {
    if (this.losing > 0) {
      this.losing -= 1;
      return;
    }
    for (const watch of this.#watches) {
      if (!path.startsWith(`${watch.folder}/`)) continue;
      if (!watch.due && !this.held) setImmediate(() => this.#tell(watch));
      watch.due = true;
    }
  }

  /** The kernel's queue ran over: nobody knows what changed, everybody is told that something did. */
  overflow(): void {
    for (const watch of this.#watches) this.changed(`${watch.folder}/?`);
  }

  /** The watcher itself fails: everybody is told, and nothing more. */
  fail(reason: string): void {
    for (const watch of this.#watches) watch.onLost(reason);
    this.#watches.clear();
  }

  /** Tells everybody who is due. */
  deliver(): void {
    for (const watch of this.#watches) this.#tell(watch);
  }

  #tell(watch: Watch): void {
    if (!watch.due || !this.#watches.has(watch)) return;
    watch.due = false;
    watch.onChange();
  }
}

/**
 * File-system events by @parcel/watcher 2.6, else by the runtime's own fs.watch. The native module is loaded when
 * first needed: in the compiled binary it is unpacked to a temporary folder, which may be missing or forbid it.
 */
import { watch as fsWatch } from "node:fs";
import { errorLine } from "../core/errors.ts";
import type { FsEvents } from "../ports/fs-events.ts";
import { inotifyRefused } from "./inotify.ts";

type Armed = Awaited<ReturnType<FsEvents["watch"]>>;
type Subscribe = typeof import("@parcel/watcher").subscribe;

export interface FsEventsOptions {
  /** Loads the native watcher; replaced in tests of the fallback. */
  load?: () => Promise<Subscribe>;
}

export function createFsEvents(options: FsEventsOptions = {}): FsEvents {
  const load = options.load ?? loadNative;
  return {
    async watch(folder, onChange, onLost = () => undefined) {
      let why: string;
      try {
        return await watchNatively(await load(), folder, onChange, onLost);
      } catch (error) {
        why = `@parcel/watcher: ${errorLine(error)}`;
      }
      try {
        return { ...watchPlainly(folder, onChange, onLost), reason: `fs.watch in place of ${why}` };
      } catch (error) {
        return {
          armed: false,
          reason: `${why}; fs.watch: ${errorLine(error)}`,
          stop: () => Promise.resolve(),
        };
      }
    },
  };
}

async function loadNative(): Promise<Subscribe> {
  const refused = inotifyRefused();
  if (refused !== null) throw new Error(refused);
  const { default: watcher } = await import("@parcel/watcher");
  return watcher.subscribe;
}

async function watchNatively(
  subscribe: Subscribe,
  folder: string,
  onChange: () => void,
  onLost: (reason: string) => void,
): Promise<Armed> {
  // An error means that events were lost or the folder is gone: the receiver lists again either way.
  const subscription = await subscribe(folder, (error) => {
    if (error === null) onChange();
    else onLost(`@parcel/watcher: ${errorLine(error)}`);
  });
  return { armed: true, stop: () => subscription.unsubscribe() };
}

/** Not recursive on Linux; what is watched with it (a repository's op heads) is flat. */
function watchPlainly(
  folder: string,
  onChange: () => void,
  onLost: (reason: string) => void,
): Armed {
  const watcher = fsWatch(folder, { persistent: false }, () => onChange());
  watcher.on("error", (error) => onLost(`fs.watch: ${errorLine(error)}`));
  return {
    armed: true,
    stop: () => {
      watcher.close();
      return Promise.resolve();
    },
  };
}

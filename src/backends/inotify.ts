/**
 * Whether this user may still open an inotify instance (Linux). Asked before @parcel/watcher 2.6 is: when it gets none,
 * its `subscribe` blocks the whole process for ever instead of failing. Another process may take the last one in
 * between; that window is a few microseconds.
 */
import { dlopen } from "bun:ffi";

const O_CLOEXEC = 0o2000000;

/** null: there is one left, or this system has no inotify. Else why there is none. */
export function inotifyRefused(): string | null {
  if (process.platform !== "linux") return null;
  const { symbols } = dlopen("libc.so.6", {
    inotify_init1: { args: ["int"], returns: "int" },
    close: { args: ["int"], returns: "int" },
  } as const);
  const fd = symbols.inotify_init1(O_CLOEXEC);
  if (fd < 0) return "no inotify instance left (fs.inotify.max_user_instances)";
  symbols.close(fd);
  return null;
}

/**
 * A program that stays in the middle of its vfork: glibc's posix_spawn runs its file actions in a child that still has
 * the parent's memory, and opening a pipe without a writer waits.
 *
 * usage: vfork-standin.ts <pipe> <file for its own pid> <file that the spawned program makes>
 */
import { dlopen, ptr } from "bun:ffi";
import { renameSync, writeFileSync } from "node:fs";

const [pipe = "", pidFile = "", made = ""] = process.argv.slice(2);
writeFileSync(`${pidFile}.new`, String(process.pid));
renameSync(`${pidFile}.new`, pidFile);

const { symbols: libc } = dlopen("libc.so.6", {
  posix_spawn: { args: ["ptr", "ptr", "ptr", "ptr", "ptr", "ptr"], returns: "int" },
  posix_spawn_file_actions_init: { args: ["ptr"], returns: "int" },
  posix_spawn_file_actions_addopen: { args: ["ptr", "int", "ptr", "int", "int"], returns: "int" },
} as const);

const kept: (Uint8Array | BigUint64Array)[] = [];
function memory<T extends Uint8Array | BigUint64Array>(bytes: T): T {
  kept.push(bytes);
  return bytes;
}
const text = (value: string) => ptr(memory(new TextEncoder().encode(`${value}\0`)));
const actions = ptr(memory(new Uint8Array(1024)));
const argv = memory(new BigUint64Array(3));
argv[0] = BigInt(text("touch"));
argv[1] = BigInt(text(made));
const empty = memory(new BigUint64Array(1));
libc.posix_spawn_file_actions_init(actions);
libc.posix_spawn_file_actions_addopen(actions, 0, text(pipe), 0, 0);
const program = text("/usr/bin/touch");
libc.posix_spawn(
  ptr(memory(new Int8Array(4) as unknown as Uint8Array)),
  program,
  actions,
  null,
  ptr(argv),
  ptr(empty),
);
setInterval(() => kept.length, 60_000);

/**
 * Blocking libc calls for the hook: no event loop, no threads, no node module. That is what makes a whole hook cost
 * little more than starting Bun (1.4.5); Bun.connect adds about half a millisecond, `process.stdout` thirteen.
 *
 * Only functions without variable arguments are called with values in the variable part: arm64 macOS passes those on
 * the stack, which bun:ffi does not do. Hence no fcntl; connecting is bounded by the socket's send time-out instead,
 * which Linux honours for a full backlog, and macOS refuses a full backlog at once.
 */
import { dlopen } from "bun:ffi";
import { AUTH_SCHEME, VERSION_HEADER } from "../rpc/contract/wire.ts";
import { VERSION } from "../version.ts";
import type { Reply } from "./hook-protocol.ts";

const MAC = process.platform === "darwin";
const LIBC = MAC ? "libSystem.B.dylib" : "libc.so.6";

const AF_UNIX = 1;
const SOCK_STREAM = 1;
const SOL_SOCKET = MAC ? 0xffff : 1;
const SO_SNDTIMEO = MAC ? 0x1005 : 21;
const POLLIN = 1;
const POLLOUT = 4;
/** `sun_path` on Linux 108 bytes, on macOS 104; the path's offset is 2 on both. */
const SUN_SIZE = MAC ? 106 : 110;

const FIRST_BUFFER_BYTES = 64 * 1024;
/** A blocking write of this much never waits after POLLOUT: Linux says writable from three quarters of 208 KiB. */
const WRITE_BYTES = 64 * 1024;
const MIN_ROOM_BYTES = 4096;
const MAX_CREDENTIAL_BYTES = 256;
/** poll and read fail with EINTR when the process is continued after a stop; more often than this is an error. */
const MAX_INTERRUPTIONS = 16;

/** Room in front of a payload for request head and caller fields, so that one buffer holds the whole request. */
export const HEAD_ROOM_BYTES = 1024;

/** Bytes `[start, end)` of `buffer`; at least HEAD_ROOM_BYTES before `start` are free. */
export interface Span {
  buffer: Buffer;
  start: number;
  end: number;
}

export interface Exchange {
  socket: string;
  /** Method of the contract. */
  method: string;
  credential: string;
  /** Body; its head room is overwritten. */
  body: Span;
  connectMs: number;
  /** On `monotonicMs()`. */
  deadline: number;
}

export interface Libc {
  /** Standard input to its end, or what came before `deadline` (then `whole` is false). */
  readStdin(deadline: number): Span & { whole: boolean };
  /** First line of a small file; "" when it cannot be read. */
  readLine(path: string): string;
  exists(path: string): boolean;
  /** One HTTP/1.1 request over a connection of its own. */
  exchange(request: Exchange): Reply;
  /** Writes everything to a descriptor; false when that failed. */
  write(fd: number, bytes: Buffer): boolean;
  exit(code: number): never;
}

export function monotonicMs(): number {
  return Bun.nanoseconds() / 1e6;
}

/** A span with `text` as its content, for requests that do not carry a payload. */
export function spanOf(text: string): Span {
  const length = Buffer.byteLength(text);
  const buffer = Buffer.allocUnsafe(HEAD_ROOM_BYTES + length);
  buffer.write(text, HEAD_ROOM_BYTES);
  return { buffer, start: HEAD_ROOM_BYTES, end: HEAD_ROOM_BYTES + length };
}

function load() {
  return dlopen(LIBC, {
    socket: { args: ["int", "int", "int"], returns: "int" },
    connect: { args: ["int", "buffer", "int"], returns: "int" },
    setsockopt: { args: ["int", "int", "int", "buffer", "int"], returns: "int" },
    poll: { args: ["buffer", "usize", "int"], returns: "int" },
    open: { args: ["buffer", "int"], returns: "int" },
    access: { args: ["buffer", "int"], returns: "int" },
    read: { args: ["int", "buffer", "usize"], returns: "int" },
    write: { args: ["int", "buffer", "usize"], returns: "int" },
    close: { args: ["int"], returns: "int" },
    _exit: { args: ["int"], returns: "void" },
  }).symbols;
}
type Symbols = ReturnType<typeof load>;

/** null where bun:ffi does not work (JIT off, another libc): before anything was read or written. */
export function openLibc(): Libc | null {
  try {
    return libcOver(load());
  } catch {
    return null;
  }
}

function libcOver(c: Symbols): Libc {
  return {
    readStdin: (deadline) => readStdin(c, deadline),
    readLine(path) {
      const fd = c.open(cString(path), 0);
      if (fd < 0) return "";
      const bytes = Buffer.alloc(MAX_CREDENTIAL_BYTES);
      const count = c.read(fd, bytes, bytes.length);
      c.close(fd);
      return bytes.toString("latin1", 0, Math.max(0, count)).split("\n", 1)[0]!.trim();
    },
    exists: (path) => c.access(cString(path), 0) === 0,
    exchange(request) {
      const fd = connect(c, request.socket, request.connectMs);
      if (fd < 0) return { status: 0, body: "", failure: "unreachable" };
      // An answer may precede the end of the request (a refusal), so a failed send still looks for one.
      sendRequest(c, fd, request);
      const reply = readReply(c, fd, request.deadline);
      c.close(fd);
      return reply;
    },
    write: (fd, bytes) => writeAll(c, fd, bytes),
    exit(code) {
      c._exit(code);
      throw new Error("_exit returned");
    },
  };
}

function cString(text: string): Buffer {
  return Buffer.from(`${text}\0`);
}

/** Waits until `fd` can be read or written; also true on hang-up, which the following call reports. */
function ready(c: Symbols, fd: number, events: number, deadline: number): boolean {
  const entry = Buffer.alloc(8); // struct pollfd: int fd, short events, short revents
  for (let interruptions = 0; interruptions < MAX_INTERRUPTIONS;) {
    const left = Math.ceil(deadline - monotonicMs());
    if (left <= 0) return false;
    entry.writeInt32LE(fd, 0);
    entry.writeInt32LE(events, 4);
    const count = c.poll(entry, 1, left);
    if (count > 0) return true;
    if (count < 0) interruptions += 1;
  }
  return false;
}

function readStdin(c: Symbols, deadline: number): Span & { whole: boolean } {
  let buffer = Buffer.allocUnsafe(FIRST_BUFFER_BYTES);
  let end = HEAD_ROOM_BYTES;
  let whole = true;
  for (;;) {
    if (!ready(c, 0, POLLIN, deadline)) {
      whole = false;
      break;
    }
    // One byte stays free for the brace that closes the body.
    const count = c.read(0, buffer.subarray(end), buffer.length - end - 1);
    if (count <= 0) {
      whole = count === 0;
      break;
    }
    end += count;
    if (buffer.length - end < MIN_ROOM_BYTES) {
      buffer = Buffer.concat([buffer, Buffer.allocUnsafe(buffer.length)]);
    }
  }
  return { buffer, start: HEAD_ROOM_BYTES, end, whole };
}

/** A connected socket, or a negative number. */
function connect(c: Symbols, path: string, timeoutMs: number): number {
  const length = Buffer.byteLength(path);
  if (length === 0 || length > SUN_SIZE - 3) return -1;
  const address = Buffer.alloc(SUN_SIZE);
  if (MAC) address.writeUInt8(SUN_SIZE, 0);
  address.writeUInt8(AF_UNIX, MAC ? 1 : 0);
  address.write(path, 2);
  const fd = c.socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return fd;
  const time = Buffer.alloc(16); // struct timeval: seconds, microseconds
  time.writeUInt32LE(Math.floor(timeoutMs / 1000), 0);
  time.writeUInt32LE((timeoutMs % 1000) * 1000, 8);
  c.setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, time, time.length);
  if (c.connect(fd, address, address.length) === 0) return fd;
  c.close(fd);
  return -1;
}

function sendRequest(c: Symbols, fd: number, request: Exchange): boolean {
  const { buffer, start, end } = request.body;
  const head = Buffer.from(
    `POST /v1/${request.method} HTTP/1.1\r\nHost: kiki\r\nConnection: close\r\n` +
      `Authorization: ${AUTH_SCHEME} ${request.credential}\r\n${VERSION_HEADER}: ${VERSION}\r\n` +
      `Content-Type: application/json\r\n` +
      `Content-Length: ${end - start}\r\n\r\n`,
  );
  if (head.length > start) return false;
  head.copy(buffer, start - head.length);
  for (let at = start - head.length; at < end;) {
    if (!ready(c, fd, POLLOUT, request.deadline)) return false;
    const count = c.write(fd, buffer.subarray(at), Math.min(end - at, WRITE_BYTES));
    if (count <= 0) return false;
    at += count;
  }
  return true;
}

/** Reads until the announced body is complete. kiki's daemon always announces a length. */
function readReply(c: Symbols, fd: number, deadline: number): Reply {
  let buffer = Buffer.allocUnsafe(FIRST_BUFFER_BYTES);
  let end = 0;
  let bodyAt = -1;
  let whole = Number.POSITIVE_INFINITY;
  while (ready(c, fd, POLLIN, deadline)) {
    const count = c.read(fd, buffer.subarray(end), buffer.length - end);
    if (count <= 0) break;
    end += count;
    if (bodyAt < 0) {
      const split = buffer.subarray(0, end).indexOf("\r\n\r\n");
      if (split >= 0) {
        bodyAt = split + 4;
        const length = /\r\ncontent-length: *(\d+)/i.exec(buffer.toString("latin1", 0, split));
        if (length === null) break;
        whole = bodyAt + Number(length[1]);
      }
    }
    if (end >= whole) {
      const status = Number(buffer.toString("latin1", 9, 12)); // "HTTP/1.1 200"
      return { status, body: buffer.toString("utf8", bodyAt, whole) };
    }
    if (buffer.length - end < MIN_ROOM_BYTES) {
      buffer = Buffer.concat([buffer, Buffer.allocUnsafe(buffer.length)]);
    }
  }
  return { status: 0, body: "", failure: "no answer" };
}

function writeAll(c: Symbols, fd: number, bytes: Buffer): boolean {
  for (let at = 0; at < bytes.length;) {
    const count = c.write(fd, bytes.subarray(at), bytes.length - at);
    if (count <= 0) return false;
    at += count;
  }
  return true;
}

/**
 * A network namespace in which only loopback exists, and the proof of it from the inside. Nothing of a real harness is
 * started without that proof: whatever such a program tries to reach, it reaches nothing.
 */
import { dlopen, FFIType, ptr, read } from "bun:ffi";
import { readFileSync, readlinkSync, realpathSync, writeFileSync } from "node:fs";
import { lookup } from "node:dns/promises";
import { join } from "node:path";

/** Tells the process inside which namespaces it must no longer be in. */
const OUTSIDE = "KIKI_GATE_OUTSIDE";

// linux/socket.h, linux/sockios.h, linux/if.h, asm-generic/errno.h (the same on x64 and arm64)
const AF_INET = 2;
const AF_INET6 = 10;
const SOCK_STREAM = 1;
const SOCK_NONBLOCK = 0o4000;
const SIOCGIFFLAGS = 0x8913;
const SIOCSIFFLAGS = 0x8914;
const IFF_UP = 1;
const IFREQ_BYTES = 40;
const IFREQ_FLAGS = 16;
const EAFNOSUPPORT = 97;
const ENETUNREACH = 101;

/** Addresses for documentation (RFC 5737, RFC 3849): nobody is there, and without a route nobody is asked. */
const NOWHERE = [
  {
    name: "192.0.2.1",
    family: AF_INET,
    // sockaddr_in: family (little-endian), port 443, address, padding
    sockaddr: Buffer.from("0200" + "01bb" + "c0000201" + "0000000000000000", "hex"),
  },
  {
    name: "2001:db8::1",
    family: AF_INET6,
    // sockaddr_in6: family (little-endian), port 443, flow, address, scope
    sockaddr: Buffer.from(
      "0a00" + "01bb" + "00000000" + "20010db8000000000000000000000001" + "00000000",
      "hex",
    ),
  },
] as const;

export interface LoopbackProof {
  readonly lines: readonly string[];
}

/** Network and mount namespace of this process. */
function namespaces(): string[] {
  return ["net", "mnt"].map((kind) => readlinkSync(`/proc/self/ns/${kind}`));
}

/** Whether `runInNamespace` has started this process: neither namespace is the caller's any more. */
export function insideNamespace(): boolean {
  const outside = process.env[OUTSIDE]?.split(" ");
  return outside !== undefined && namespaces().every((name, i) => name !== outside[i]);
}

/** Runs `command` to its end in a new network namespace; resolves with its exit code. */
export async function runInNamespace(
  command: readonly string[],
  env: Record<string, string | undefined>,
): Promise<number> {
  if (process.platform !== "linux") {
    throw new Error("the gate needs Linux: it runs the real harness in a network namespace");
  }
  // Without root, a user namespace of one's own gives the right to make the other two.
  const rights = process.getuid?.() === 0 ? [] : ["--user", "--map-root-user"];
  const child = Bun.spawn(["unshare", ...rights, "--net", "--mount", "--", ...command], {
    env: { ...env, [OUTSIDE]: namespaces().join(" ") },
    stdio: ["inherit", "inherit", "inherit"],
  });
  const forward = (signal: NodeJS.Signals): void => child.kill(signal);
  process.on("SIGINT", forward);
  process.on("SIGTERM", forward);
  return child.exited;
}

/** Brings loopback up and, where mounting is allowed, makes names resolve to nothing but loopback. */
export function prepareNamespace(folder: string): void {
  // Before anything is mounted: never over the machine's own files.
  refuseOtherInterfaces();
  raiseLoopback();
  const hosts = join(folder, "hosts");
  const resolver = join(folder, "resolv.conf");
  writeFileSync(hosts, "127.0.0.1 localhost\n::1 localhost\n");
  writeFileSync(resolver, "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n");
  for (const [file, place] of [
    [hosts, "/etc/hosts"],
    [resolver, "/etc/resolv.conf"],
  ] as const) {
    // The mount namespace is this run's own. A machine that forbids it still has no network here.
    Bun.spawnSync(["mount", "--bind", file, realpathSync(place)], {
      stdio: ["ignore", "ignore", "ignore"],
    });
  }
}

type Libc = ReturnType<typeof openLibc>["symbols"];

function openLibc() {
  const { i32, u32, u64, ptr: pointer } = FFIType;
  return dlopen("libc.so.6", {
    socket: { args: [i32, i32, i32], returns: i32 },
    ioctl: { args: [i32, u64, pointer], returns: i32 },
    connect: { args: [i32, pointer, u32], returns: i32 },
    close: { args: [i32], returns: i32 },
    __errno_location: { args: [], returns: pointer },
  });
}

function withLibc<T>(use: (libc: Libc) => T): T {
  const libc = openLibc();
  try {
    return use(libc.symbols);
  } finally {
    libc.close();
  }
}

function raiseLoopback(): void {
  withLibc(({ socket, ioctl, close }) => {
    const fd = socket(AF_INET, SOCK_STREAM, 0);
    const request = new Uint8Array(IFREQ_BYTES);
    request.set(new TextEncoder().encode("lo"));
    const flags = new DataView(request.buffer);
    const known = ioctl(fd, SIOCGIFFLAGS, ptr(request)) === 0;
    flags.setInt16(IFREQ_FLAGS, flags.getInt16(IFREQ_FLAGS, true) | IFF_UP, true);
    const raised = known && ioctl(fd, SIOCSIFFLAGS, ptr(request)) === 0;
    close(fd);
    if (!raised) throw new Error("the loopback interface cannot be brought up");
  });
}

function refuseOtherInterfaces(): void {
  // Those of the reading process's own namespace, up or not; /sys may still show the machine's.
  const names = readFileSync("/proc/self/net/dev", "utf8")
    .split("\n")
    .slice(2)
    .map((line) => line.split(":")[0]?.trim() ?? "")
    .filter((name) => name !== "");
  if (names.join() !== "lo") throw refused(`interfaces here: ${names.join(", ")}`);
}

/** Throws when anything but loopback can be reached from this process. */
export async function proveLoopbackOnly(): Promise<LoopbackProof> {
  refuseOtherInterfaces();
  const lines: string[] = [];
  lines.push("the only network interface is lo");

  for (const address of NOWHERE) {
    const errno = connectErrno(address);
    // A machine without IPv6 has not even the address family.
    const nowhere =
      errno === ENETUNREACH || (address.family === AF_INET6 && errno === EAFNOSUPPORT);
    if (!nowhere)
      throw refused(`connecting to ${address.name} gave errno ${errno}, not ENETUNREACH`);
    lines.push(`connecting to ${address.name} fails at once: no route (errno ${errno})`);
  }
  const resolved = await lookup("example.com").then(
    ({ address }) => address,
    () => null,
  );
  if (resolved !== null && !/^(127\.|::1$)/.test(resolved)) throw refused("a public name resolves");
  lines.push("a public name does not resolve");

  await proveLoopbackWorks();
  lines.push("a server on 127.0.0.1 answers");
  return { lines };
}

/**
 * errno of a TCP connect that does not wait: 0, ENETUNREACH at once where there is no route, EINPROGRESS where there is
 * one. By libc itself, because Bun 1.4.5 calls every failed connect ECONNREFUSED.
 */
function connectErrno(address: (typeof NOWHERE)[number]): number {
  return withLibc(({ socket, connect, close, __errno_location }) => {
    const fd = socket(address.family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0) return read.i32(__errno_location()!);
    const result = connect(fd, ptr(address.sockaddr), address.sockaddr.length);
    const errno = result === 0 ? 0 : read.i32(__errno_location()!);
    close(fd);
    return errno;
  });
}

/** Without this the proof would also hold where nothing works at all. */
async function proveLoopbackWorks(): Promise<void> {
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("here") });
  const answer = await fetch(server.url).then((response) => response.text(), String);
  await server.stop(true);
  if (answer !== "here") throw refused(`127.0.0.1 cannot be reached: ${answer}`);
}

function refused(what: string): Error {
  return new Error(
    `this is not a loopback-only network namespace (${what}); the harness is not started`,
  );
}

/**
 * Where the daemon's socket is. Pure, so that client, daemon and hook compute the same; `find-socket.ts` adds what
 * the daemon has recorded.
 */
import { MAX_SOCKET_PATH_BYTES } from "./contract/wire.ts";

/**
 * `<state>/kkd.sock`; where that is too long to bind, `<runtime dir>/kiki/<hash>.sock` or, without a usable runtime
 * dir, `/tmp/kiki-<uid>/<hash>.sock`. `stateDir` is absolute and resolved; `runtimeDir` is `$XDG_RUNTIME_DIR`.
 */
export function socketPath(stateDir: string, runtimeDir: string | undefined, uid: number): string {
  const direct = `${stateDir}/kkd.sock`;
  if (fits(direct)) return direct;
  const name = socketName(stateDir);
  const runtime = runtimeDir?.startsWith("/") ? `${runtimeDir}/kiki/${name}` : null;
  return runtime !== null && fits(runtime) ? runtime : `/tmp/kiki-${uid}/${name}`;
}

/** The state folder can hold its own socket; nothing outside it is involved. */
export function socketIsInside(stateDir: string): boolean {
  return fits(`${stateDir}/kkd.sock`);
}

/** File name outside the state folder: tells state folders of one user apart. */
export function socketName(stateDir: string): string {
  return `${fnv1a64(new TextEncoder().encode(stateDir))}.sock`;
}

function fits(path: string): boolean {
  return new TextEncoder().encode(path).byteLength <= MAX_SOCKET_PATH_BYTES;
}

/** FNV-1a, 64 bits, hex. Not for secrets: the folder around the socket is what protects it. */
function fnv1a64(bytes: Uint8Array): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of bytes) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  return hash.toString(16).padStart(16, "0");
}

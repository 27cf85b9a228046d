/**
 * Which credential a command speaks with. Least privilege: inside a thread kk is that thread, elsewhere it is
 * registration. The presenter's is presenter-client.ts's alone, the admin's presenter.ts's.
 */
import { readFileSync } from "node:fs";
import { fail, KikiError } from "../core/errors.ts";
import { statePaths, threadPaths } from "../core/paths.ts";
import { makeClient, type Client } from "../rpc/client.ts";
import { findSocket } from "../rpc/find-socket.ts";
import { VERSION } from "../version.ts";

/** The context's own: that of the thread the environment names, else registration. */
export function clientFor(dir: string): Client {
  const { KIKI_THREAD_ID: threadId, KIKI_REPO_ID: repoId } = process.env;
  return threadId && repoId ? clientOf(dir, repoId, threadId) : registrationClient(dir);
}

/**
 * A thread speaking for itself; registration while it has no credential yet, or not any more. Read for every call: a
 * credential is replaced when its incarnation ends, and gone with a creation that is undone.
 */
export function clientOf(dir: string, repoId: string, threadId: string): Client {
  const file = threadPaths(dir, repoId, threadId).credential;
  const clientNow = (refused: string | null): { client: Client; secret: string | null } => {
    const secret = readSecret(file);
    const usable = secret !== null && secret !== refused;
    return { client: usable ? clientWith(dir, secret) : registrationClient(dir), secret };
  };
  return {
    socket: socketOf(dir),
    async call(method, input, options) {
      const { client, secret } = clientNow(null);
      try {
        return await client.call(method, input, options);
      } catch (error) {
        const replaced = error instanceof KikiError && error.code === "credential-unknown";
        if (!replaced || secret === null) throw error;
        return clientNow(secret).client.call(method, input, options);
      }
    },
  };
}

/** Throws KikiError `credential-unreadable`. */
export function registrationClient(dir: string): Client {
  const file = statePaths(dir).registrationCredential;
  const secret = readSecret(file);
  if (secret !== null) return clientWith(dir, secret);
  throw fail(
    "daemonUnavailable",
    "credential-unreadable",
    `cannot read ${file}`,
    "kk daemon restart writes a new one",
  );
}

/** `secret` null: for methods that ask for none. */
export function clientWith(dir: string, secret: string | null): Client {
  return makeClient({ socket: socketOf(dir), credential: secret, clientVersion: VERSION });
}

function socketOf(dir: string): string {
  return findSocket(dir, process.env["XDG_RUNTIME_DIR"]);
}

/** null when there is no such file, or no secret in it. */
export function readSecret(file: string): string | null {
  try {
    const text = readFileSync(file, "utf8").trim();
    return /^[0-9a-f]{64}$/.test(text) ? text : null;
  } catch {
    return null;
  }
}

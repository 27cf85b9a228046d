/**
 * The presenter: this user's terminal front end, the only one that can confirm a plan. Its credential is read here and
 * nowhere else, only with a foreground terminal in hand, and lives in this process's memory alone: never in an
 * environment, an argument or a file of a command's.
 */
import { KikiError } from "../core/errors.ts";
import { statePaths } from "../core/paths.ts";
import type { Client } from "../rpc/client.ts";
import { clientWith, readSecret, registrationClient } from "./credentials.ts";
import { note } from "./out.ts";
import type { Terminal } from "./terminal.ts";

/** null while this user has no presenter, or its file is lost. The terminal is the proof that a person is there. */
export function presenterClient(dir: string, _terminal: Terminal): Client | null {
  const secret = readSecret(statePaths(dir).presenterCredential);
  return secret === null ? null : clientWith(dir, secret);
}

/**
 * First use: makes this user's kk the presenter; the daemon writes the credential. Throws what the daemon refuses
 * with: `presenter-enrolled` when there is one whose file is lost.
 */
export async function enrolPresenter(dir: string, clientPid: number): Promise<void> {
  try {
    await registrationClient(dir).call("EnrollApprovalPresenter", { clientPid });
  } catch (error) {
    const enrolled = error instanceof KikiError && error.code === "presenter-enrolled";
    if (!enrolled) throw error;
    // Another terminal's first use was faster: its credential is this user's, and so this kk's too.
    if (readSecret(statePaths(dir).presenterCredential) !== null) return;
    throw lostPresenter(dir, error);
  }
  const file = statePaths(dir).presenterCredential;
  note(
    `from now on kk is the presenter, which alone can confirm plans; its credential is ${file}\n`,
  );
}

/** There is a presenter, and this is not it. */
export function lostPresenter(dir: string, cause?: unknown): KikiError {
  return new KikiError(
    {
      kind: "approval",
      code: "presenter-enrolled",
      message: `kk cannot confirm plans: its credential ${statePaths(dir).presenterCredential} is lost or not the one enrolled`,
      hint: "kk presenter recover",
    },
    cause,
  );
}

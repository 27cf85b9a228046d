/**
 * The terminal front end that may confirm approvals. Enrolled on first use, from a person's terminal; enrolled anew only
 * with the admin credential. Its secret is written to its file and is in no answer.
 */
import { fail } from "../core/errors.ts";
import type { Ids } from "../ports/ids.ts";
import {
  insertUserCredential,
  liveUserCredentials,
  revokeUserCredential,
} from "../store/credentials.ts";
import { write, type Db } from "../store/db.ts";
import {
  everEnrolled,
  insertPresenter,
  livePresenters,
  revokePresenter,
} from "../store/presenters.ts";
import { presenceProblem } from "./broker.ts";
import { hashSecret } from "./identify.ts";
import type { Presence } from "./presence.ts";

const SECRET_BYTES = 32;

export interface PresenterDeps {
  userDb: Db;
  ids: Ids;
  now(): number;
  /** Writes the presenter's credential file, 0600, durably. */
  writeSecret(secret: string): void;
}

export interface Enrolled {
  presenterId: string;
  enrolledAt: number;
}

/** Throws `presenter-enrolled`, and what is wrong with the place it was asked for from. */
export function enrol(deps: PresenterDeps, presence: Presence): Enrolled {
  checkPlace(presence);
  if (everEnrolled(deps.userDb)) {
    throw fail(
      "approval",
      "presenter-enrolled",
      "a presenter has been enrolled before; a new one needs the admin credential",
      "kk presenter recover",
    );
  }
  return enrolNow(deps);
}

/** Revokes whoever confirmed until now. The caller has proved the admin credential. */
export function recover(deps: PresenterDeps, presence: Presence): Enrolled {
  checkPlace(presence);
  return enrolNow(deps);
}

function checkPlace(presence: Presence): void {
  const problem = presenceProblem(presence);
  if (problem !== null) throw problem;
}

function enrolNow(deps: PresenterDeps): Enrolled {
  const { userDb, ids } = deps;
  const secret = ids.secret(SECRET_BYTES);
  const enrolledAt = deps.now();
  const presenterId = ids.uuid();
  const credentialId = ids.uuid();
  // The file first: after a crash in between its secret opens nothing, and enrolling or recovering is said again.
  deps.writeSecret(secret);
  write(userDb, () => {
    for (const row of livePresenters(userDb)) revokePresenter(userDb, row.presenterId, enrolledAt);
    for (const row of liveUserCredentials(userDb)) {
      if (row.kind !== "ApprovalPresenter") continue;
      revokeUserCredential(userDb, row.credentialId, enrolledAt);
    }
    insertUserCredential(userDb, {
      credentialId,
      kind: "ApprovalPresenter",
      secretSha256: hashSecret(secret),
      now: enrolledAt,
    });
    insertPresenter(userDb, { presenterId, credentialId, enrolledAt });
  });
  return { presenterId, enrolledAt };
}

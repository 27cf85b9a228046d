/** Registration and admin credential: a file clients read, and its hash in the user database. */
import { hashSecret } from "../authority/identify.ts";
import type { Clock } from "../ports/clock.ts";
import type { Ids } from "../ports/ids.ts";
import type { Log } from "../ports/log.ts";
import {
  insertUserCredential,
  liveUserCredentials,
  revokeUserCredential,
} from "../store/credentials.ts";
import { write, type Db } from "../store/db.ts";
import type { DaemonFiles } from "./runtime.ts";

const SECRET_BYTES = 32;
const FILE_MODE = 0o600;

/**
 * Makes file and database agree. A missing, garbled or foreign file is replaced by a new secret, and every earlier
 * credential of its kind is revoked: which of the two was wrong cannot be known.
 */
export function ensureUserCredential(
  deps: { userDb: Db; files: DaemonFiles; ids: Ids; clock: Clock; log: Log },
  kind: "RegistrationScoped" | "Admin",
  file: string,
): void {
  const { userDb, files, ids, clock } = deps;
  const live = liveUserCredentials(userDb).filter((row) => row.kind === kind);
  const secret = files.readText(file)?.trim() ?? "";
  const known = live.find((row) => row.secretSha256 === hashSecret(secret));
  if (known !== undefined && live.length === 1) {
    // Written again for its mode: a restored copy may be readable by others.
    files.writeDurable(file, `${secret}\n`, FILE_MODE);
    return;
  }
  if (live.length > 0) deps.log.warn(`${kind} credential replaced: file and database differed`);
  const fresh = ids.secret(SECRET_BYTES);
  // The file first: a crash in between leaves a disagreement, which the next start mends.
  files.writeDurable(file, `${fresh}\n`, FILE_MODE);
  write(userDb, () => {
    const now = clock.now();
    for (const row of live) revokeUserCredential(userDb, row.credentialId, now);
    insertUserCredential(userDb, {
      credentialId: ids.uuid(),
      kind,
      secretSha256: hashSecret(fresh),
      now,
    });
  });
}

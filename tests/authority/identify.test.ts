/** Which credential is whose, and that nothing of one is ever in what is said about it. */
import { afterAll, beforeEach, expect, test } from "bun:test";
import { fail } from "../../src/core/errors.ts";
import { hashSecret, makeIdentify, type Identify } from "../../src/authority/identify.ts";
import { revokeThreadCredential, revokeUserCredential } from "../../src/store/credentials.ts";
import { revokePresenter } from "../../src/store/presenters.ts";
import { makeAuthorityRig, SECRETS, type AuthorityRig } from "./rig.ts";

let rig: AuthorityRig;
let identify: Identify;

beforeEach(() => {
  rig = makeAuthorityRig();
  identify = makeIdentify({
    userDb: rig.userDb,
    repos: () => rig.repos,
    unavailable: (secret) =>
      secret === "f".repeat(64) ? fail("failed", "repo-unavailable", "cannot be opened") : null,
    fingerprintKey: "key",
  });
});
afterAll(() => rig.close());

/** Whose it is, in one word. */
function whose(header: string | null): string {
  const { identity, fingerprint } = identify(header);
  expect(identity === null).toBe(fingerprint !== null);
  if (identity === null) return "nobody";
  if (identity.kind === "ThreadScoped") return `thread ${identity.repoId}/${identity.threadId}`;
  return identity.kind === "ApprovalPresenter"
    ? `presenter ${identity.presenterId}`
    : identity.kind;
}

test("each kind of credential → its owner", () => {
  expect(whose(`Kiki ${SECRETS.registration}`)).toBe("RegistrationScoped");
  expect(whose(`Kiki ${SECRETS.admin}`)).toBe("Admin");
  expect(whose(`Kiki ${SECRETS.presenter}`)).toBe("presenter p1");
  expect(whose(`Kiki ${SECRETS.parser}`)).toBe("thread r1/parser");
  expect(whose(`Kiki ${SECRETS.tests}`)).toBe("thread r2/tests");
});

test("no header, other scheme, wrong length, upper case → nobody", () => {
  const secret = SECRETS.registration;
  const headers = [
    null,
    "",
    `Bearer ${secret}`,
    `Kiki ${secret}0`,
    "Kiki ABCDEF",
    `kiki ${secret}`,
  ];
  for (const header of headers) expect([header, whose(header)]).toEqual([header, "nobody"]);
});

test("revoked credential → nobody's at once, also after it was used", () => {
  expect(whose(`Kiki ${SECRETS.parser}`)).toBe("thread r1/parser");
  revokeThreadCredential(rig.repos[0]!.db, "parser", 2);
  expect(whose(`Kiki ${SECRETS.parser}`)).toBe("nobody");
  revokeUserCredential(rig.userDb, "registration", 2);
  expect(whose(`Kiki ${SECRETS.registration}`)).toBe("nobody");
});

test("presenter that was revoked while its credential was not → nobody", () => {
  revokePresenter(rig.userDb, "p1", 2);
  expect(whose(`Kiki ${SECRETS.presenter}`)).toBe("nobody");
});

test("credential of a thread whose repository cannot be opened → says so, names nobody", () => {
  const found = identify(`Kiki ${"f".repeat(64)}`);
  expect([found.identity, found.unavailable?.code]).toEqual([null, "repo-unavailable"]);
});

test("fingerprint: no header → none; the same one → equal; nothing of it or of its plain hash in it", () => {
  expect(identify(null).fingerprint).toBe("none");
  const header = `Bearer ${SECRETS.registration}`;
  const { fingerprint } = identify(header);
  expect(identify(header).fingerprint).toBe(fingerprint);
  expect(identify(`${header} `).fingerprint).not.toBe(fingerprint);
  expect(header).not.toContain(fingerprint!.slice(5, 11));
  expect(hashSecret(header)).not.toContain(fingerprint!.slice(5));
  expect(hashSecret(SECRETS.registration)).not.toContain(fingerprint!.slice(5));
});

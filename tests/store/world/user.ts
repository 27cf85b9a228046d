/** Rows of a per-user database: every table has some. */
import { approvalRows } from "./approvals.ts";
import { insert, sha } from "./sql.ts";

export function userRows(): string[] {
  const credential = (id: string, kind: string, letter: string, revoked: number | null): string =>
    insert("credentials", {
      credential_id: id,
      kind,
      secret_sha256: sha(letter),
      created_at: 1,
      revoked_at: revoked,
    });
  return [
    insert("repos", {
      repo_id: "r1",
      canonical_path: "/s/.jj/repo",
      repo_root: "/s",
      colocated: 1,
      registered_at: 1,
    }),
    insert("daemon_meta", { key: "socket", value: "/s.sock" }),
    credential("reg", "RegistrationScoped", "1", null),
    credential("pre", "ApprovalPresenter", "2", null),
    credential("pre-2", "ApprovalPresenter", "3", null),
    credential("pre-old", "ApprovalPresenter", "4", 2),
    insert("approval_presenters", {
      presenter_id: "pr-1",
      credential_id: "pre",
      front_end: "cli",
      enrolled_at: 1,
      revoked_at: null,
    }),
    insert("approval_presenters", {
      presenter_id: "pr-0",
      credential_id: "pre-old",
      front_end: "tui",
      enrolled_at: 1,
      revoked_at: 2,
    }),
    ...approvalRows("user_"),
  ];
}

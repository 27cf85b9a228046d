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
    insert("harness_proof_runs", {
      run_id: 1,
      harness: "claude-code",
      adapter_version: "1",
      harness_version: "2.1.999",
      source: "quick",
      executable: "/bin/claude",
      executable_stamp: "1:2:3:4",
      proved_at: 5,
      proved_by: "kiki",
    }),
    insert("harness_proof_runs", {
      run_id: 2,
      harness: "claude-code",
      adapter_version: "1",
      harness_version: "2.1.332",
      source: "gate",
      executable: null,
      executable_stamp: null,
      proved_at: 6,
      proved_by: "kiki",
    }),
    insert("harness_proofs", {
      run_id: 1,
      ordinal: 0,
      name: "exclusive-hooks",
      takes_json: '["exclusive_pre_tool_use"]',
      outcome: "proved",
      reason: "only kiki's ran",
    }),
    ...approvalRows("user_"),
  ];
}

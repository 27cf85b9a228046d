/** Threads in every lifecycle that matters, their journals and their incarnations. */
import { insert, sha, type Value } from "./sql.ts";

const HEAD = { head: "h1", checkpoint: "k1" };

function thread(
  id: string,
  lifecycle: string,
  extra: { head?: string; checkpoint?: string; resume?: string } = {},
): string {
  const { head = null, checkpoint = null, resume = null } = extra;
  return insert("threads", {
    thread_id: id,
    name: id,
    slug: id,
    lifecycle,
    projection_resume_lifecycle: resume,
    harness: "claude-code",
    harness_executable: "/bin/claude",
    harness_args_json: "[]",
    workspace_name: `kk-${id}`,
    workspace_path: `/ws/${id}`,
    bookmark: `kk/${id}`,
    tmux_session: `kk-${id}`,
    tmux_session_id: head === null ? null : "$1",
    owned_stack_base_commit_id: head === null ? null : "b1",
    thread_head_commit_id: head,
    thread_head_change_id: head === null ? null : "z1",
    thread_head_op_id: head === null ? null : "o1",
    checkpoint_commit_id: checkpoint,
    created_at: 1,
  });
}

function operation(
  id: string,
  of: string,
  kind: string,
  state: string,
  steps: readonly [name: string, state: string, irreversible?: 1][],
): string[] {
  const failing = state === "Failed" || steps.some(([, s]) => s === "Compensating");
  return [
    insert("thread_lifecycle_ops", {
      operation_id: id,
      thread_id: of,
      kind,
      state,
      args_json: "{}",
      failing: failing ? 1 : 0,
      error: failing ? "why" : null,
      started_at: 1,
      ended_at: state === "Running" ? null : 2,
    }),
    ...steps.map(([name, step, irreversible], index) =>
      insert("thread_lifecycle_steps", {
        operation_id: id,
        ordinal: index + 1,
        name,
        state: step,
        identity_json: step === "Pending" ? null : '{"token":"t"}',
        result_json: step === "Completed" ? '{"made":true}' : null,
        attempts: step === "Pending" ? 0 : 1,
        undo_attempts: step === "Compensating" ? 1 : 0,
        irreversible: irreversible ?? 0,
      }),
    ),
  ];
}

function session(
  id: string,
  of: string,
  letter: string,
  extra: Record<string, Value> = {},
): string {
  return insert("agent_sessions", {
    agent_session_id: id,
    thread_id: of,
    harness: "claude-code",
    harness_version: "2.1",
    harness_session_id: `conversation-${id}`,
    secret_sha256: sha(letter),
    settings_fingerprint: sha("f"),
    capabilities_json: "{}",
    pid: 7,
    start_time: "70",
    status: "Running",
    created_at: 1,
    session_started_at: 2,
    ready_at: 3,
    ...extra,
  });
}

export function threadRows(): string[] {
  return [
    thread("new", "Creating"),
    thread("failed", "CreateFailed"),
    thread("act", "Active", HEAD),
    thread("kid", "Active", HEAD),
    thread("grand", "Active", HEAD),
    thread("pre", "ClosePreflight", HEAD),
    thread("shut", "CloseCommit", HEAD),
    thread("closed", "Closed", { head: "h1", checkpoint: "h1" }),
    thread("div", "ProjectionDiverged", { ...HEAD, resume: "Active" }),
    thread("divc", "ProjectionDiverged", { head: "h1", checkpoint: "h1", resume: "Closed" }),
    thread("dest", "DestroyCommit", HEAD),
    thread("dead", "Destroyed", HEAD),
    ...["kid>act", "grand>kid"].map((edge) => {
      const [child, parent] = edge.split(">") as [string, string];
      return insert("thread_links", {
        child_thread_id: child,
        parent_thread_id: parent,
        last_synchronized_parent_commit_id: "h1",
        created_at: 1,
      });
    }),
    ...operation("op-new", "new", "Create", "Running", [
      ["allocate", "Completed"],
      ["workspace", "Started"],
      ["head", "Pending"],
    ]),
    ...operation("op-act", "act", "Create", "Completed", [["allocate", "Completed"]]),
    ...operation("op-failed", "failed", "Create", "Failed", [
      ["allocate", "Compensated"],
      ["workspace", "Failed"],
      ["head", "Pending"],
    ]),
    ...operation("op-pre", "pre", "Close", "Running", [
      ["freeze", "Completed"],
      ["quiesce", "Completed"],
      ["recheck", "Compensating"],
    ]),
    ...operation("op-shut", "shut", "Close", "Running", [
      ["checkpoint", "Completed"],
      ["kill", "Started", 1],
      ["forget", "Pending"],
    ]),
    ...operation("op-dest", "dest", "Destroy", "Running", [
      ["freeze", "Completed"],
      ["bookmark", "Completed", 1],
      ["kill", "Pending", 1],
    ]),
    session("s-new", "new", "0", {
      pid: null,
      start_time: null,
      session_started_at: null,
      ready_at: null,
    }),
    session("s-act", "act", "1"),
    session("s-old", "act", "2", { status: "Crashed", retired_at: 9 }),
    session("s-kid", "kid", "3", { delivered_intent_id: "i-deliv" }),
    session("s-grand", "grand", "4", {
      startup_intent_id: "i-re",
      startup_intent_epoch: 1,
      startup_delivery_id: "d1",
      startup_payload_sha256: sha("p"),
      startup_echo_prompt: 1,
      startup_echo_at: 5,
      prompts: 2,
      serial_violations: 1,
    }),
    session("s-pre", "pre", "5"),
    session("s-div", "div", "6"),
    ...["new:Activated", "act:Exec"].map((gate) => {
      const [of, state] = gate.split(":") as [string, string];
      return insert("launch_gates", {
        gate_id: `g-${of}`,
        thread_id: of,
        agent_session_id: `s-${of}`,
        state,
        pane_id: "%1",
        launch_file: "/l",
        created_at: 1,
      });
    }),
    ...(["act", "kid", "grand"] as const).map((of, n) =>
      insert("credentials", {
        credential_id: `c-${of}`,
        thread_id: of,
        kind: "ThreadScoped",
        secret_sha256: sha(`${n}`),
        created_at: 1,
      }),
    ),
    insert("credentials", {
      credential_id: "c-old",
      thread_id: "act",
      kind: "ThreadScoped",
      secret_sha256: sha("9"),
      created_at: 1,
      revoked_at: 2,
    }),
  ];
}

import type { Chapter } from "./obligation.ts";

const CLAUDE = "gate/claude-proofs";
const CODEX = "gate/codex-proofs";
const CLAUDE_LAUNCH = "gate/claude-launch/suite.ts";
const CODEX_LAUNCH = "gate/codex-launch/suite.ts";
const CLAUDE_UNIT = "backends/harness/claude-code.test.ts";
const CODEX_UNIT = "backends/harness/codex.test.ts";
const LOCAL = "backends/harness/local-settings.test.ts";

/** What is asked of the harnesses themselves. Files below `gate/` run the real programs: `npm run gate`. */
export const HARNESSES: Chapter = {
  title: "Harnesses: managed sessions, isolation, lifecycle (the release gate)",
  obligations: [
    {
      what: "managed sessions prove that kiki is the sole matching pre-tool hook: a project or user fixture does not execute",
      by: {
        [`${CLAUDE}/exclusivity.ts`]: ["exclusive-plugin", "exclusive-skill", "exclusive-agent"],
        [`${CODEX}/exclusivity.ts`]: [
          "exclusive-user",
          "exclusive-project",
          "exclusive-project-config",
          "exclusive-plugin",
        ],
        [CLAUDE_LAUNCH]: [
          "not one hook of user, project or local settings, of skill or agent has run",
        ],
        [CODEX_LAUNCH]: ["not one hook of the person, the project or a plugin has run"],
      },
    },
    {
      what: "managed policy: refused before any prompt, the file named",
      by: {
        [`${CLAUDE}/exclusivity.ts`]: ["managed-refused", "managed-runs"],
        [`${CODEX}/exclusivity.ts`]: ["managed-runs", "managed-only"],
        [CLAUDE_UNIT]: ["managed policy that adds or removes pre-tool hooks → refused"],
        [CODEX_UNIT]: ["managed hooks, only managed ones, hooks switched off"],
      },
    },
    {
      what: "launch-scoped isolation leaves the tracked settings and the person's global ones byte-identical",
      by: {
        [`${CLAUDE}/exclusivity.ts`]: ["settings-untouched"],
        [CLAUDE_UNIT]: ["people's own files → byte-identical after a launch"],
      },
    },
    {
      what: "the settings.local.json fallback merges that file only, restores it only from kiki's own hash, reports a concurrent edit; and it must prove that other hooks stay out",
      by: {
        [LOCAL]: [
          "given back byte for byte",
          "edited meanwhile → reported, not one byte changed",
          "a death before the file was written, or after it was given back",
        ],
        "e2e/local-settings.test.ts": [
          "foreign hooks stay out → the thread is Active",
          "foreign hooks run → refused, nothing written",
        ],
      },
    },
    {
      what: "a Codex session runs under the generated CODEX_HOME with its login provisioned; the person's ~/.codex is untouched and unread, <workspace>/.codex never created, changed or deleted",
      by: {
        [`${CODEX}/homes.ts`]: ["home-untouched", "login-copied"],
        [CODEX_LAUNCH]: [
          "the person's ~/.codex and the workspace's .codex are as they were, to the byte and the second",
          "not one request carries what stands in the person's home",
        ],
        [CODEX_UNIT]: ["neither its settings nor its hooks nor its instructions reach the home"],
      },
    },
    {
      what: "no fallback for Codex: a failed isolation proof fails the incarnation before any prompt",
      by: {
        [`${CODEX}/homes.ts`]: ["preflight-sees-it", "hooks-switched-off", "untrusted-is-silent"],
        [CODEX_UNIT]: ["Codex lists a hook more, one less, an altered one", "codex-preflight"],
        "lifecycle/launch-order.test.ts": [
          "when it would open → CreateFailed, nothing was started",
        ],
      },
    },
    {
      what: "serial dispatch: one call asked for at a time, no overlap, helpers off, the next only after the previous result",
      by: {
        [`${CODEX}/serial.ts`]: [
          "asks-for-one-call",
          "no-overlap",
          "next-call-after-result",
          "no-helpers",
        ],
        [CODEX_LAUNCH]: ["every request says parallel_tool_calls:false"],
      },
    },
    {
      what: "a deny returns the saved payload byte-identically, and the denied tool never executes and fires no post-tool event; 1 KB, 16 KB, above the limit",
      by: {
        [`${CODEX}/denials.ts`]: [
          "deny-above-own-limit",
          "deny-without-post-event",
          "deny-in-record",
        ],
        [`${CLAUDE}/denials.ts`]: ["deny-1k", "deny-16k", "deny-above-limit", "deny-in-record"],
        [`${CLAUDE}/batches.ts`]: ["denied-without-post-event"],
      },
    },
    {
      what: "a dead, broken or missing sidecar, with and without a barrier",
      by: {
        [`${CLAUDE}/failures.ts`]: ["hook-garbage", "launcher-missing", "launcher-timeout"],
        [`${CODEX}/failures.ts`]: ["hook-garbage", "launcher-missing", "launcher-killed"],
        [CODEX_LAUNCH]: [
          "a dead sidecar under a barrier: the launcher's generic refusal reaches the model byte for byte",
          "a launcher that cannot be started blocks the call",
        ],
      },
    },
    {
      what: "the harness-side hook limit is above the slow path's bound, also for a harness that stood still meanwhile",
      by: {
        [`${CODEX}/failures.ts`]: ["hook-timeout", "stopped-at-hook"],
        [`${CLAUDE}/failures.ts`]: ["stopped-past-timeout"],
        [CLAUDE_UNIT]: ["kiki's for every event, calls fail closed"],
      },
    },
    {
      what: "every tool of the pinned version that observes the workspace asks its hook, or is off",
      by: {
        [`${CODEX}/tools.ts`]: [
          "every-tool-asks",
          "mcp-hooked",
          "write-stdin-feeds-nothing",
          "off-web-search",
          "off-tool-search",
        ],
        [`${CODEX}/serial.ts`]: ["offers-four-tools"],
        [`${CLAUDE}/batches.ts`]: ["mcp-hooked", "sub-agents"],
      },
    },
    {
      what: "stable batch identity and one PostToolBatch per response, under slow streaming, with concurrent hooks, with all calls denied",
      by: {
        [`${CLAUDE}/batches.ts`]: [
          "batch-of-slow-stream",
          "hooks-while-streaming",
          "hooks-at-once",
          "batch-all-denied",
          "batch-lists-refused",
        ],
      },
    },
    {
      what: "the session record: a call's line before its hook, refusals exactly as the model got them",
      by: {
        [`${CODEX}/serial.ts`]: ["call-in-record-before-hook"],
        [`${CODEX}/denials.ts`]: ["deny-in-record"],
        "gate/codex-smoke/receipts.ts": [
          "a contrary receipt: the arriving call is refused with the same payload, once more",
          "redelivered once, then the agent is replaced, in the same session",
        ],
      },
    },
    {
      what: "Stop, SessionStart, Esc, /clear, compaction, resume, the startup echo",
      by: {
        [`${CODEX}/sessions.ts`]: [
          "session-start-is-lazy",
          "stop-after-turn",
          "esc-interrupts",
          "resume-keeps-id",
          "compaction-keeps-id",
          "startup-echo",
          "steer-same-turn",
          "prompt-broken-off-in-hook",
        ],
        [`${CLAUDE}/sessions.ts`]: [
          "session-id-chosen",
          "resume-keeps-id",
          "startup-echo",
          "clear-new-id",
          "esc-without-events",
          "prompt-taken-back-in-hook",
          "prompt-taken-back-unanswered",
        ],
        [CLAUDE_LAUNCH]: ["/compact keeps the session id"],
      },
    },
    {
      what: "a turn-completion hook only where it is specified and tested: never blocks the stop, completes or acknowledges a bound batch",
      by: {
        "cascade/stop-hook.test.ts": [
          "stop with a passed batch open → its calls are resolved",
          "stop with a bound batch open → that batch is over and not complete, nothing is acknowledged",
          "stop with unrecorded edits → recorded once",
        ],
        "backends/harness/launcher.test.ts": [
          "stop, whatever kk-hook says or how it ends → exit 0, silent: the stop is never blocked",
        ],
        [`${CLAUDE}/batches.ts`]: ["stop-after-turn"],
      },
    },
    {
      what: "a version that fails a proof runs restart-only, one that fails exclusivity is refused before any prompt; never modelled optimistically",
      by: {
        "e2e/proofs.test.ts": [
          "an unknown version that runs a project's hooks → refused before anything is made",
          "→ restart-only, said in the plan and by kk doctor",
        ],
        "e2e/restart-only.test.ts": [
          "a version without PostToolBatch, its parent moves twice in one turn → told by RestartStartup",
        ],
        "backends/harness/quick-proofs.test.ts": [
          "goes on without a hook that died → restart-only",
        ],
        "lifecycle/proving.test.ts": ["refused with both reasons"],
      },
    },
    {
      what: "the story on each real program, and both under one parent",
      by: {
        "gate/claude-smoke/suite.ts": ["the child re-reads parser.ts and sees v2"],
        "gate/codex-smoke/story.ts": ["the child re-reads parser.ts and sees v2"],
        "gate/both/suite.ts": [
          "one move, an intent for each, and not one file of either has changed",
          "both are in sync, and neither blocked call has run",
        ],
      },
    },
  ],
};

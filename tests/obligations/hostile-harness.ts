import type { Chapter } from "./obligation.ts";

const HOOKS = "e2e/hostile-hooks.test.ts";
const OUTAGES = "e2e/hostile-outages.test.ts";
const SESSIONS = "e2e/hostile-sessions.test.ts";
const DELIVERY = "cascade/delivery.test.ts";
const RESTART = "cascade/restart.test.ts";
const CREATION = "lifecycle/creation.test.ts";
const CODEX_UNIT = "backends/harness/codex.test.ts";
const CLAUDE_UNIT = "backends/harness/claude-code.test.ts";
const CLAUDE_QUICK = "backends/harness/quick-proofs.test.ts";
const CODEX_QUICK = "backends/harness/codex-quick-proofs.test.ts";

/** Hostile situations that have to do with a harness and its hooks: what is right in each, and what shows it. */
export const HOSTILE_HARNESS: Chapter = {
  title: "Hostile: Harness",
  obligations: [
    {
      what: "hook stalled past its budget, daemon stopped (SIGSTOP), hook killed, hook binary missing, output garbled → no barrier: allowed within its second, logged; barrier: generic deny; files never change without a held call",
      by: {
        [OUTAGES]: [
          "no barrier → allowed at once, a file and one line say so",
          "under a barrier → refused in general words, nothing written down as passed",
          "daemon stopped (SIGSTOP): the hook waits for it past its budget",
          "the hook itself stalled past its budget, then going on",
          "hook killed while it waits",
          "hook binary missing",
          "output garbled",
        ],
        [HOOKS]: [
          "its child's calls pass and run on the files as they are; continued, the work is told at a held call",
        ],
        "cmd/hook.test.ts": [
          "standard input that never ends → outage path within the budget",
          "hold, daemon killed while it waits → generic deny",
        ],
        "backends/harness/launcher.test.ts": [
          "no barrier → pass, record and one log line",
          "barrier up → generic deny, no record, no log",
        ],
        [DELIVERY]: [
          "hold told but never confirmed → it may have been allowed: batch let through, no file changed",
        ],
        "e2e/story.test.ts": ["files changed only while a batch was held"],
      },
    },
    {
      what: "a deny is printed but the harness runs the tool anyway → a probe for each version and tool refuses that version loudly; at run time a receipt that does not match never acknowledges",
      by: {
        [CLAUDE_QUICK]: ["runs what it was told to refuse → refused"],
        [CODEX_QUICK]: ["ignores-denies"],
        "gate/codex-proofs/tools.ts": ["every-tool-asks"],
        [DELIVERY]: ["receipt shows that a blocked tool ran → RecoveryRequired, loud"],
        "cascade/serial.test.ts": [
          "the harness ran a blocked tool → RecoveryRequired, loud, the boundary is lost",
          "MarkDelivered alone → acknowledges nothing",
        ],
        "cascade/review.test.ts": [
          "blocked tool ran while a recovery was open → closed, for a person; its version is told by restart from then on",
        ],
      },
    },
    {
      what: "the deny reason is replaced or truncated → the receipt is contrary: told again once, then a restart",
      by: {
        [DELIVERY]: ["contrary receipt → redelivered once on the arriving batch, byte-identical"],
        [RESTART]: ["second contrary receipt → restart, not a third delivery at a boundary"],
        "cascade/serial.test.ts": [
          "second contrary receipt → restart instead of another redelivery",
        ],
        [CLAUDE_QUICK]: ["cuts what it tells its model → restart-only"],
        [CODEX_QUICK]: ["cuts-denies"],
      },
    },
    {
      what: "a second pre-tool hook is discovered (user, project, local, plugin, managed) → this incarnation does not start, the message names the file; of the first four none can run beside kiki's",
      by: {
        [CREATION]: ["foreign hook found → CreateFailed with the file named, no prompt ever given"],
        "lifecycle/relaunch.test.ts": [
          "somebody else hooks by now → refused before anything is started",
        ],
        [CLAUDE_UNIT]: ["managed policy that adds or removes pre-tool hooks → refused"],
        [CODEX_UNIT]: ["Codex lists a hook more, one less, an altered one"],
        "contract/harness.test.ts": [
          "hooks in user, project, local and plugin settings → kept out, the launch goes on",
          "managed pre-tool hook, hooks switched off, or a policy nobody can read → refused, naming the file",
        ],
        "e2e/proofs.test.ts": ["an unknown version that runs a project's hooks → refused"],
        "gate/claude-proofs/exclusivity.ts": ["exclusive-plugin", "managed-refused"],
      },
    },
    {
      what: "five parallel calls, one denied, others cancelled by the harness → one payload; each sibling accounted blocked or cancelled; no hang",
      by: {
        "cascade/cancelled.test.ts": [
          "five calls at once, one denied, the hooks of the others ended while they are held",
          "five calls at once, all of them taken back → told again, once",
          "four of them taken back before their hooks → the one that asked is the batch",
          "four hooks ended before they confirm → perhaps allowed: the batch passes within its limit",
        ],
        [DELIVERY]: ["five concurrent first calls → one materialisation"],
      },
    },
    {
      what: "hooks of two turns interleaved, duplicated, reordered → only exact tuples count",
      by: {
        "cascade/tuples.test.ts": [
          "reports of an earlier turn, of another batch, turn, intent or agent, doubled and in any order",
        ],
        [DELIVERY]: [
          "closing events: stale, duplicate and partial ones → only the exact batch completes",
          "closing event overtaken by the next response's call",
        ],
        [RESTART]: ["a call of a prompt before the echoed one, arriving after the echo"],
        "cascade/serial.test.ts": [
          "the same call asked about again, in the same and in a later turn → same bytes",
          "a call of an earlier response, or of a turn that was left → counted",
        ],
      },
    },
    {
      what: "the harness runs in a background daemon: hook without TMUX, other cwd, another pane's environment → identified by the incarnation's secret, or refused; never guessed",
      by: {
        [HOOKS]: [
          "no TMUX, another folder, nothing but the secret → its own incarnation",
          "another pane's environment with its own secret → refused",
          "another pane's environment with this one's secret → this incarnation",
          "no secret, a wrong one, a torn one → refused",
          "an event with another pane's secret → not taken",
          "an agent that was replaced → its hooks are refused",
        ],
      },
    },
    {
      what: "new folder → trust dialog eats the first prompt; the process exits 0 at once → not Active without the ready handshake; clear diagnosis",
      by: {
        "e2e/pretrust.test.ts": [
          "a dialog, pretrust off → the thread stays Creating and says where to accept it",
        ],
        "e2e/person.test.ts": ["agent that ends at once → one line why"],
        [CREATION]: [
          "no handshake within 60 s → CreateFailed with what the pane showed last",
          "dialog not accepted within 10 min → CreateFailed, and says so",
        ],
        "lifecycle/launch-order.test.ts": [
          "process reported, again and again → still Creating: exec'd is not ready",
        ],
      },
    },
    {
      what: "hook trust hash missing or changed by an upgrade → no handshake, not Active; the message says what to do",
      by: {
        "e2e/hostile-trust.test.ts": [
          "trust of kiki's hooks is %s → no thread, nothing was asked of the model",
        ],
        [CODEX_QUICK]: ["lists kiki's hooks and runs none → refused"],
        "gate/codex-proofs/homes.ts": ["untrusted-is-silent"],
      },
    },
    {
      what: "two harness sessions sharing a cwd; /clear or compaction changes the session id → only a proven id is resumed, else a fresh start with the saved payload; bounded tries",
      by: {
        [SESSIONS]: [
          "a person's own session in the same folder is the newest there → the thread's conversation is taken up",
          "/clear, and the agent is killed before anything is said in the new conversation",
        ],
        "lifecycle/relaunch.test.ts": [
          "conversation that was spoken in → taken up again by its id; one that never was → a new one",
          "conversation whose record is gone → a new one",
        ],
        "e2e/restart.test.ts": ["conversation's record deleted, then the agent is killed"],
        "cascade/review.test.ts": [
          "/clear after the batch closed → the new conversation never got the payload: told again",
          "conversation compacted while another agent's call is in flight",
        ],
        [RESTART]: ["three attempts fail → exhausted in the transaction of the last failure"],
      },
    },
    {
      what: "an unrelated process edits the generated settings while running → mismatch of the fingerprint at the next incarnation; regenerated or refused",
      by: {
        [SESSIONS]: ["a foreign pre-tool hook in the settings, the launcher emptied"],
        [CREATION]: ["generated settings edited before the handshake → CreateFailed, never Active"],
        "lifecycle/launch-order.test.ts": [
          "settings changed since they were proved → the handshake does not count",
        ],
        "e2e/local-settings.test.ts": ["edited while the agent runs → left as it is"],
      },
    },
    {
      what: "50 hook calls in one second → bounded processes, answers within budget",
      by: {
        [HOOKS]: [
          "daemon there → each asked, answered within the hook's limit, two processes for each that waits and no more",
          "daemon stopped (SIGSTOP) → each passes by its own limit and is written down; none is left, no second daemon",
        ],
        "cmd/hook.test.ts": ["no daemon → started once for many hooks"],
      },
    },
    {
      what: "an agent tries kk approvals, also through a pty of its own → refused: its ancestry is a live incarnation; send-keys into a person's terminal is documented as out of reach (docs/authority.md)",
      by: {
        "e2e/authority.test.ts": [
          "kk new on a pty of its own",
          "kk new on a pty, in a session of its own, environment wiped",
          "kk presenter recover on a pty of its own",
        ],
        "authority/presence.test.ts": ["child that was orphaned with a clean environment"],
      },
    },
    {
      what: "thread started from inside another thread → the child's environment is an allow-list; tokens of the parent do not leak",
      by: {
        [SESSIONS]: ["no secret, token or id of the outer thread"],
        "core/agent-env.test.ts": ["a thread's own pane → nothing of that thread gets through"],
        [CREATION]: ["environment of the caller → only listed names reach the agent"],
        [CODEX_UNIT]: ["of an own CODEX_HOME, but never of another thread's"],
      },
    },
  ],
};

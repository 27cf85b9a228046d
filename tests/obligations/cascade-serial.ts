import type { Chapter } from "./obligation.ts";

const SERIAL = "cascade/serial.test.ts";
const DEATHS = "cascade/serial-deaths.test.ts";
const STORIES = "crash/serial-stories.ts";
const RESTART = "cascade/restart.test.ts";
const REPAIR = "repair/delivery.test.ts";
const BARRIER = "core/barrier.test.ts";
const CORE = "core/serial.test.ts";

/** The part of the daemon. What the adapter and its version prove of the harness itself is in the adapter's own chapter. */
export const SERIAL_BATCHES: Chapter = {
  title: "Cascade: a harness that runs one call at a time (Codex)",
  obligations: [
    {
      what: "no two tool calls of one turn run concurrently, those of subagents included: enforced at run time",
      by: {
        [SERIAL]: [
          "first runs → the sibling is held until it is over, then released",
          "first returns with its process running → over by its output in the record, and the sibling goes",
          "calls of another agent, which there is not to be → counted",
          "two violations → the boundary is lost",
          "the second violation comes while calls are held for work → nothing is bound",
        ],
        [STORIES]: [
          "the second of two calls waits for the first",
          "two calls at once again and again",
        ],
        [CORE]: ["a response of a call that was decided → sibling"],
      },
    },
    {
      what: "a deny returns the saved payload byte-identically, and the denied tool never executes",
      by: {
        [SERIAL]: [
          "the tool never ran; same bytes",
          "first blocked → its sibling is refused with it, same bytes",
          "a refused patch → judged on the payload within the wrapper that repeats the whole patch",
          "a refused tool that is only named → matching as well",
          "the harness ran a blocked tool → RecoveryRequired, loud, the boundary is lost",
        ],
      },
    },
    {
      what: "a dead sidecar under an active barrier: the launcher answers with a generic blocking deny",
      by: {
        "backends/harness/launcher.test.ts": ["barrier up → generic deny, no record, no log"],
        "cmd/hook.test.ts": ["no daemon, barrier up → generic deny, no passed file left"],
      },
    },
    {
      what: "batch_completed_at is recorded by the next turn-scoped event's admission transaction, which survives a crash, never by the emitting hook's own RPC",
      by: {
        [SERIAL]: [
          "nothing its own hook reports completes it → batch open until the next call's admission",
          "Stop → completes the batch and stores the receipt, acknowledges nothing",
        ],
        [DEATHS]: ["→ told once it is there again, acknowledged by proof alone"],
        [STORIES]: ["told at one call, completed by the next", "completed by the turn's end"],
      },
    },
    {
      what: "acknowledgement requires a PreToolUse with a distinct, serially later tool_use_id",
      by: {
        [SERIAL]: [
          "the same call asked about again, in the same and in a later turn → same bytes, never an acknowledgement",
          "a call of an earlier response, or of a turn that was left →",
        ],
        [BARRIER]: ["decideBoundary: any facts → acknowledged exactly with complete proof"],
      },
    },
    {
      what: "a same-or-later turn id alone never suffices",
      by: {
        [SERIAL]: [
          "a same or later turn id without a later response → acknowledges nothing",
          "a response that was broken off is not counted: the same number in the next turn → no sibling",
        ],
      },
    },
    {
      what: "acknowledgement always requires the receipt: the session record's byte-identical deny result; MarkDelivered alone never suffices; a matching receipt acknowledges",
      by: {
        [SERIAL]: [
          "MarkDelivered alone → acknowledges nothing; MarkDelivered lost, receipt matching →",
          "acknowledged, another intent waits → the next intent decides about this very call",
        ],
      },
    },
    {
      what: "hook death before stdout: the contrary receipt redelivers on the arriving batch",
      by: { [SERIAL]: ["hook dies before stdout → launcher's generic refusal, contrary receipt"] },
    },
    {
      what: "stdout written but timed out or rejected: MarkDelivered recorded, receipt contrary, redelivered, never acknowledged",
      by: {
        [SERIAL]: ["stdout written, MarkDelivered recorded, the harness rejected it → contrary"],
      },
    },
    {
      what: "a second contrary receipt fails over to RestartStartup; exhausted bounded attempts hard-pause with a loud attention event",
      by: {
        [SERIAL]: [
          "second contrary receipt → restart instead of another redelivery",
          "every output is rejected, and every replacement ends → attempts bounded, paused, loud",
        ],
      },
    },
    {
      what: "daemon restart between and after those attempts: history and exhaustion are read from the intent",
      by: {
        [SERIAL]: [
          "daemon restarts between them change nothing",
          "a daemon restart surfaces it again and mints nothing",
        ],
        [RESTART]: ["daemon restarts between and after the attempts →"],
        [STORIES]: ["the payload is lost once", "the payload is lost twice"],
      },
    },
    {
      what: "retry-delivery re-arms one cycle of the next epoch, bounds compare epochs and never timestamps; discard-delivery only under its approval; no other write to an exhausted intent",
      by: {
        [RESTART]: [
          "retry-delivery → one fresh bounded cycle in the next epoch",
          "clock set back between attempts →",
          "exhausted → no other write is accepted",
        ],
        [REPAIR]: [
          "discard-delivery → acknowledged without proof, with the approval that says so",
          "discard-delivery, no approval was spent on it → refused",
        ],
      },
    },
    {
      what: "receipt unreadable at the completing arrival: acknowledgement defers when nothing else is pending, and takes RestartStartup when something is",
      by: {
        [SERIAL]: [
          "receipt unreadable at the completing arrival, nothing else pending →",
          "the record itself cannot be read at the next call, nothing else pending →",
          "receipt unreadable, another delivery pending → restart",
          "Stop with an unreadable record → completed unreadable; read again, contrary → redelivered",
          "the last line is torn",
        ],
        [STORIES]: ["the receipt is read later", "the receipt is not read, and more work comes"],
      },
    },
    {
      what: "what proves nothing lets no work be bound",
      by: {
        [SERIAL]: [
          "record unreadable at admission, work ready → nothing bound, no file changed",
          "record unreadable after a violation, at an active barrier → not let through",
          "a person breaks the turn off at a blocked call → never completed: restart",
        ],
        [BARRIER]: ["decideBoundary: any facts → acknowledged exactly with complete proof"],
      },
    },
    {
      what: "a call is in flight until its event, its output in the session record, or its batch's end",
      by: {
        [SERIAL]: [
          "a call that has no event yet and whose output is in the record → over",
          "→ the batch has ended, nothing is in flight any more",
          "a call that is neither over by its event nor in the record → nothing is bound beside it",
        ],
      },
    },
    {
      what: "no parallel_batch_boundary: soft delivery off, RestartStartup only, when nothing is in flight",
      by: {
        [SERIAL]: [
          "no batch boundary proved → nothing is bound; the call is refused, the agent replaced",
          "daemon dies before the agent is replaced → the next one replaces it",
        ],
        [BARRIER]: [
          "boundary lost, work ready, a call in flight → pass",
          "boundary lost, just restarted, more work → one batch first",
        ],
      },
    },
    {
      what: "an edit of workspace files with no hooked call in flight stops soft delivery for that incarnation; a poll of a running process aside",
      by: {
        [SERIAL]: [
          "an edit with no hooked call in flight → unproven",
          "edits by a call that passed while no daemon was there → still proved",
          "edits by hooked calls, and by a process one of them left running → still proved",
        ],
        [CORE]: ["editedOutsideCalls: a call whose process may still run"],
      },
    },
    {
      what: "the startup echo by turn ids, which words typed in the middle of a turn share",
      by: {
        [SERIAL]: [
          "words typed in the middle of the first turn have its turn id → the first call still acknowledges",
          "the payload comes into a turn that a person began → its calls are refused, its end says nothing, and the agent is started anew",
        ],
      },
    },
  ],
};

import type { Chapter } from "./obligation.ts";

const RESTART = "cascade/restart.test.ts";
const DELIVERY = "cascade/delivery.test.ts";
const REPAIR = "repair/delivery.test.ts";
const RELAUNCH = "lifecycle/relaunch.test.ts";
const REAL = "e2e/restart.test.ts";
const MATRIX = "crash/intent-scenarios.ts";

export const RESTARTS: Chapter = {
  title: "Cascade crash tests: delivery by restart",
  obligations: [
    {
      what: "an unknown in-flight batch leaves files untouched and hard-restarts the incarnation for a clean boundary",
      by: {
        [RESTART]: [
          "a tool of a batch nobody admitted has run, work is ready →",
          "a tool nobody admitted has run, its batch closed since →",
        ],
        [MATRIX]: ["a tool of a batch that nobody saw begin, parent amends"],
      },
    },
    {
      what: "ambiguous completion always hard-restarts with the saved payload",
      by: {
        [RESTART]: ["ambiguous completion → agent ended"],
        [DELIVERY]: ["closing event omits a blocked call → the batch is over but not complete"],
        [REAL]: ["Esc at a blocked batch, then another prompt →"],
      },
    },
    {
      what: "replacement row and byte-stable startup payload durable before exec; payload is the first startup message; first managed boundary proves startup processing; no interrupted tool is replayed",
      by: {
        [RESTART]: [
          "replacement row and saved payload durable before it is started, no tool replayed",
          "calls before its echo blocked; the first call of the echoed prompt acknowledges and passes",
          "a call of a prompt before the echoed one, arriving after the echo → acknowledges nothing",
          "first turn ends without the startup prompt →",
          "the echoed turn ends without a call → the first call of a later prompt acknowledges",
          "echoed prompt broken off, then sent once more with more words →",
          "→ acknowledges nothing; started anew, text and words in the first input",
        ],
        [RELAUNCH]: ["the claim in the same transaction; started in the same pane"],
      },
    },
    {
      what: "the acknowledging call then has the next intent selected before its tool is decided about",
      by: { [RESTART]: ["the next intent decides about this very call"] },
    },
    {
      what: "an agent crash after delivery but before acknowledgement",
      by: {
        [RESTART]: ["agent crashes after delivery, before acknowledgement →"],
        [REAL]: ["agent killed after delivery →"],
        [MATRIX]: ["the agent dies with the payload"],
      },
    },
    {
      what: "a resume with a delivered-but-unacknowledged intent; a reused harness session id retires the old incarnation without acknowledgement and injects the payload before any tool; a crash before the first boundary redelivers to another replacement",
      by: {
        [RESTART]: ["resume with a delivered, unacknowledged intent; conversation id reused →"],
        [RELAUNCH]: [
          "conversation that was spoken in → taken up again by its id",
          "somebody else hooks by now → refused before anything is started",
        ],
      },
    },
    {
      what: "resume only a proven conversation whose record is there, else a fresh start with the saved payload; bounded tries",
      by: {
        "lifecycle/relaunch.test.ts": ["conversation whose record is gone → a new one"],
        [REAL]: ["conversation's record deleted, then the agent is killed → a new conversation"],
      },
    },
    {
      what: "what a person typed follows the payload, however long it is and whatever became of the work it was typed for",
      by: {
        [RESTART]: [
          "what the person typed meanwhile → follows the payload in the first input",
          "typed words longer than a program can be started with →",
          "typed for work that came to nothing, or for a turn that is over →",
          "agent ended to be told of what cannot be followed;",
          "a prompt that is reported twice → repeated once",
        ],
      },
    },
    {
      what: "second contrary receipt fails over to RestartStartup",
      by: { [RESTART]: ["second contrary receipt → restart"] },
    },
    {
      what: "bounded attempts; exhaustion with the last failure; loud once; a daemon restart between and after them mints nothing",
      by: {
        [RESTART]: [
          "exhausted in the transaction of the last failure: paused, payload kept, loud once",
          "daemon restarts between and after the attempts →",
          "clock set back between attempts →",
        ],
        [MATRIX]: ["no replacement becomes ready, and a person grants another cycle"],
      },
    },
    {
      what: "retry-delivery re-arms one cycle of the next epoch; discard-delivery only under an approval of that plan; no other write to an exhausted intent",
      by: {
        [RESTART]: [
          "retry-delivery → one fresh bounded cycle in the next epoch",
          "exhausted → no other write is accepted",
        ],
        [REPAIR]: [
          "retry-delivery → journal, approval and next epoch in one transaction",
          "discard-delivery → acknowledged without proof, with the approval that says so",
          "discard-delivery, no approval was spent on it → refused",
        ],
      },
    },
    {
      what: "daemon crash at every step of a restart",
      by: {
        [RESTART]: [
          "→ after its restart the agent is told, acknowledged once",
          "with a replacement on its way →",
        ],
        "crash/intents.test.ts": ["every point with every absence → survived"],
      },
    },
  ],
};

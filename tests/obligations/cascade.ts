import type { Chapter } from "./obligation.ts";

const CASCADE = "cascade/cascade.test.ts";
const DELIVERY = "cascade/delivery.test.ts";
const AGENT = "cascade/fake-agent.test.ts";
const REVIEW = "cascade/review.test.ts";
const RECOVER = "cascade/recover.test.ts";
const WATCHING = "cascade/watching.test.ts";
const INTERRUPTED = "cascade/interrupted.test.ts";
const HOOK = "cmd/hook.test.ts";
const STORY = "e2e/story.test.ts";
const MATRIX = "crash/intent-scenarios.ts";
const CORPUS = "backends/jj/probe-corpus.test.ts";

/** Bullets of "Cascade crash tests" but for delivery by restart, which has a chapter of its own. */
export const CRASHES: Chapter = {
  title: "Cascade crash tests: boundary, delivery, recovery",
  obligations: [
    {
      what: "a hook crash before it writes stdout; the same, followed by a newly enqueued cascade",
      by: {
        [MATRIX]: ["the hook dies with the payload"],
        [INTERRUPTED]: ["hook of a held call died, its batch closed, the next one is held"],
      },
    },
    {
      what: "a crash between stdout and MarkDelivered",
      by: {
        [MATRIX]: ["the hook's report of the delivery is lost"],
        [HOOK]: ["deny, MarkDelivered never answered → still exit 11 with the output"],
        [AGENT]: ["hook dies after stdout → redelivered"],
      },
    },
    {
      what: "a crash after MarkDelivered",
      by: {
        [STORY]: [
          "kill -9 of the daemon once the intent is ${moment}, restart before the batch closes",
        ],
      },
    },
    {
      what: "two or more concurrent PreToolUse calls racing to reconcile the same intent: one materialisation, every call of the batch blocked",
      by: {
        [DELIVERY]: [
          "five concurrent first calls → one materialisation, all blocked with the same bytes",
        ],
      },
    },
    {
      what: "permutations in which each logical tool is the first hook to arrive; whichever arrives first fixes Block",
      by: { [AGENT]: ["parallel batch, hooks in any order → none runs, same bytes"] },
    },
    {
      what: "a batch whose first admission is PassThrough; work detected before a sibling is deferred to the next batch",
      by: {
        [DELIVERY]: ["batch admitted before the work was detected → its later sibling passes"],
      },
    },
    {
      what: "a restart after a PassThrough admission loses the cache; an active durable Block stays fail-closed",
      by: {
        [DELIVERY]: [
          "a call passed while the daemon was away (known and unknown) → its batch is a passed one",
        ],
        [REVIEW]: ["boot resumes a bound intent, another agent's unseen call is open"],
      },
    },
    {
      what: "a sibling arriving after payload emission but before MarkDelivered: byte-identical payload, no acknowledgement",
      by: {
        [DELIVERY]: [
          "exclusive siblings that arrive one after another → each gets the saved payload",
        ],
      },
    },
    {
      what: "matching, duplicate, stale, missing and reordered PostToolBatch events",
      by: {
        [DELIVERY]: [
          "closing events: stale, duplicate and partial ones → only the exact batch completes",
          "closing event omits a blocked call",
          "closing event overtaken by the next response's call",
        ],
        [REVIEW]: ["late duplicate of a closing event, an unknown call in flight"],
      },
    },
    {
      what: "a tool that ran although its batch was refused: RecoveryRequired, loud, whoever called it and whatever it was refused for",
      by: {
        [DELIVERY]: [
          "receipt shows that a blocked tool ran → RecoveryRequired",
          "a tool that nobody was asked about ran beside a blocked call → RecoveryRequired",
        ],
        "cascade/copies.test.ts": [
          "sub-agent's refused call ran → RecoveryRequired",
          "call that was refused because its agent is to be started anew, and ran",
        ],
      },
    },
    {
      what: "a sub-agent is told as well: a copy for each, again where it did not reach its model",
      by: {
        [DELIVERY]: ["sub-agent calls under a bound barrier → a copy of the payload each time"],
        "cascade/copies.test.ts": [
          "sub-agent's copy did not reach its model → its next call gets it again",
          "sub-agent's copies never reach its model → three",
        ],
      },
    },
    {
      what: "a start of the daemon in which part of the recovery fails: the rest is done, the repository is watched, that part is tried again",
      by: {
        "cascade/boot-trouble.test.ts": ["one thread's spool cannot be read at boot →"],
        "cascade/restart.test.ts": ["last word of the one before, handled late →"],
      },
    },
    {
      what: "a new batch in the same model turn cannot acknowledge merely because its batch id differs",
      by: {
        "core/barrier.test.ts": [
          "decideBoundary: any facts → acknowledged exactly with complete proof",
        ],
      },
    },
    {
      what: "the first PreToolUse of a later model turn acknowledges; a lost MarkDelivered is repaired in the same transaction",
      by: { [DELIVERY]: ["MarkDelivered lost for every call, matching receipt, later turn"] },
    },
    {
      what: "hook, daemon and agent crashes before and after durable barrier creation, and before and after batch_completed_at",
      by: {
        "crash/intents.test.ts": [
          "every point → passed by a story",
          "every point with every absence → survived",
        ],
        [STORY]: ["kill -9 at twenty moments of a cascade"],
        [INTERRUPTED]: [
          "a hook recorded its pass in a blocked batch and has not seen the marker yet",
        ],
      },
    },
    {
      what: "multiple cascades before the first hook, coalescing into one delivery",
      by: {
        [CASCADE]: ["several parent moves before the first boundary → one intent, one delivery"],
      },
    },
    {
      what: "deliverable-intent lookup and byte-identical retry for both Materialized and Delivered",
      by: {
        [DELIVERY]: ["contrary receipt → redelivered once on the arriving batch, byte-identical"],
      },
    },
    {
      what: "daemon crash and recovery at every sync_intent state, RecoveryRequired included",
      by: {
        "crash/intents.test.ts": [
          "every point → passed by a story",
          "every point with every absence → survived",
        ],
        [MATRIX]: ["edits on stale files", "somebody's revision stands on the child"],
      },
    },
    {
      what: "WorkspaceProbe: FreshClean, FreshDirty, StaleClean, StaleDirty, Unknown; fingerprint drift right before mutation",
      by: {
        [CORPUS]: ["corpus: at least sixty situations, every kind of workspace among them"],
        [RECOVER]: ["files drift between the look and jj's stale recovery"],
      },
    },
    {
      what: "update-stale with clean files, with unsnapshotted edits, with conflicts, with direct materialisation, with a concurrently advanced base",
      by: {
        [CASCADE]: [
          "native rewrite: parent amends → child blocked once, files current",
          "person ran update-stale in the child",
        ],
        [RECOVER]: [
          "scenario 2: rewrite after an unsnapshotted edit",
          "scenario 8: both changed the same lines",
        ],
        [REVIEW]: [
          "parent amends between kiki's last look and its update → the newest state, no recovery",
        ],
      },
    },
    {
      what: "recovery verifies edit-bearing divergent successors before choosing; ambiguous recovery requires a person",
      by: {
        [RECOVER]: [
          "an edit lands between the last look and jj's update → found in jj's divergent copy",
          "the child's revision was changed elsewhere as well → loud, nothing touched",
        ],
        "repair/edge.test.ts": ["changed elsewhere → land, then one plan per copy"],
      },
    },
    {
      what: "--no-integrate-operation and jj op integrate for a planned ParentAdvance, concurrent external operations included",
      by: {
        [CASCADE]: [
          "parent advance: parent adds a revision → exactly the child's chain is rebased, staged and integrated",
        ],
        [REVIEW]: [
          "parent adds another revision while the child is being rebased onto the first",
          "operation lands while the result is being written down",
        ],
      },
    },
  ],
};

/** Bullets about the cascade of "Regression tests"; the scenarios named here are the same on real jj, with the hook spoken by hand. */
export const REGRESSIONS: Chapter = {
  title: "Cascade: regression tests",
  obligations: [
    {
      what: "the outage: allow and write down; work pending meanwhile is delivered later; edits on stale files are never taken for clean",
      by: {
        [HOOK]: ["no daemon, no barrier → pass, payload in passed/, one line logged"],
        [RECOVER]: ["scenario 9: daemon outage, the agent edits stale files meanwhile"],
      },
    },
    {
      what: "once a barrier is active, an outage lets nothing through",
      by: { [HOOK]: ["no daemon, barrier up → generic deny, no passed file left"] },
    },
    {
      what: "native ancestor evolution: exact ids, no redundant rebase (scenario 1)",
      by: { [CASCADE]: ["native rewrite: parent amends → child blocked once, files current"] },
    },
    {
      what: "parent-head advance: live head, checkpoint behind; only the validated chain is rebased (scenario 3)",
      by: {
        [CASCADE]: [
          "parent advance: parent adds a revision",
          "parent goes backward → TopologyDiverged",
        ],
        [REVIEW]: [
          "parent amends and advances, somebody else's revision stands on the child → diverged",
        ],
      },
    },
    {
      what: "A→B→C: independent intents at once; an advance of B by kiki records C's intent (scenario 7)",
      by: {
        [CASCADE]: [
          "A→B→C: one amend of A → B and C each get their own intent",
          "A→B→C: advance of B by kiki → C's intent is recorded by the reconciliation",
        ],
      },
    },
    {
      what: "direct materialisation by a person: no duplicate update, the agent is still told (scenario 4)",
      by: { [CASCADE]: ["person ran update-stale in the child → no second update"] },
    },
    {
      what: "coalescing; a prepared payload never changes (scenario 10)",
      by: {
        [CASCADE]: ["operation storm: thirty amends read at once → one intent, one delivery"],
        "cascade/storm.test.ts": ["storm: three writers, six threads"],
      },
    },
    {
      what: "a stale workspace with unsnapshotted edits enters RecoveryRequired and never resumes on a tree that hides them (scenarios 2, 8, 11)",
      by: {
        [RECOVER]: [
          "scenario 2: rewrite after an unsnapshotted edit",
          "scenario 11: commits on stale files → HEAD pinned and put back",
          "an ignored file lies where the parent brings one → loud",
        ],
      },
    },
    {
      what: "multi-parent and divergent operation graphs: all reachable ancestors, parents first",
      by: {
        [CASCADE]: ["two operation heads → all interpreted; merged at the next boundary"],
        [WATCHING]: [
          "the same operations one by one, or all at once after a boot",
          "merge of operations: both sides moved the parent",
        ],
        "core/ancestry.test.ts": ["any graph in any rounds"],
      },
    },
    {
      what: "bookmark moves never classify; the first half of workspace add moves nothing",
      by: {
        [WATCHING]: [
          "bookmarks: created, moved backward, deleted",
          "workspace add: read between its two operations",
        ],
      },
    },
    {
      what: "three parallel tools (scenario 6); busy parent, busy child (scenario 12)",
      by: {
        [DELIVERY]: [
          "five concurrent first calls",
          "busy parent, every boundary has new work → at most two blocked batches",
        ],
      },
    },
    {
      what: "several operation heads that nobody merges: merged where one view is needed, read as anybody's, and only there",
      by: {
        "cascade/one-head.test.ts": [
          "unchanged for the grace → merged once",
          "a boundary with work → merged, told at this very boundary",
          "both heads moved the parent → merged, does not fit together",
          "daemon dies at ${point} → the next one tells the agent, nothing twice",
        ],
        "e2e/heads.test.ts": ["at once while agents run jj at once"],
      },
    },
    {
      what: "somebody else writes into a file in the instant in which jj replaces it: the bytes are kept, and it is loud",
      by: {
        "cascade/kept.test.ts": [
          "somebody writes into a file in the instant jj replaces it → bytes kept",
          "written into, and the daemon dies before it can look",
          "nobody writes → told, no second name",
        ],
        [RECOVER]: [
          "somebody writes into a file in the instant jj replaces it → the bytes are kept",
        ],
      },
    },
    {
      what: "processes of the agent stand still while its files change",
      by: {
        "cascade/still.test.ts": [
          "every line it wrote is in the files, and the parent's newest as well",
        ],
      },
    },
    {
      what: "the file events of the machine are lost or cannot be had: polled, and kk doctor says so",
      by: {
        "cascade/wake.test.ts": ["no watch left → polled more often, the reason is said"],
        "e2e/no-events.test.ts": ["no inotify instance left → the daemon polls"],
      },
    },
  ],
};

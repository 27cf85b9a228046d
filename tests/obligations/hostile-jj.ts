import type { Chapter } from "./obligation.ts";

const TAKEN = "cascade/taken-away.test.ts";
const BEHIND = "cascade/behind-kiki.test.ts";
const EDITS = "cascade/every-edit.test.ts";
const LOCKS = "cascade/locks-held.test.ts";
const SLOW = "cascade/slow-jj.test.ts";
const REAL = "lifecycle/creation-real-jj.test.ts";
const CREATION = "lifecycle/creation.test.ts";
const THREADS = "contract/jj-scenarios-threads.ts";

/** What people report of jj beside several agents. The last row is one of the harness's: its commands are jj's. */
export const HOSTILE_JJ: Chapter = {
  title: "Hostile: jj",
  obligations: [
    {
      what: "dirty stale workspace: modified, new, deleted, renamed, exec bit, symlink, newly ignored → bundle first, every byte accounted for",
      by: {
        [EDITS]: [
          "all at once → bundled before jj's first command, every byte in the tree afterwards",
          "a rule that is not recorded yet ignores a new file",
        ],
        "cascade/recover.test.ts": [
          "an ignored file lies where the parent brings one → loud",
          "files drift between the look and jj's stale recovery",
        ],
        "backends/jj/probe-corpus.test.ts": ["newly ignored, then modified"],
      },
    },
    {
      what: "daemon polling at 10 Hz while two agents commit → zero operations authored by reading",
      by: {
        "cascade/watching.test.ts": ["polled ten times a second while two agents commit"],
        "cascade/storm.test.ts": ["storm: three writers, six threads"],
      },
    },
    {
      what: "two op heads when reading → pinned ids; no reconcile operation written",
      by: {
        "contract/jj-scenarios-history.ts": [
          "heads: two commands on the same operation → two heads; pure reads merge nothing",
        ],
        "cascade/one-head.test.ts": [
          "a boundary without work → nobody waits and nothing is merged",
        ],
        "cascade/cascade.test.ts": ["two operation heads → all interpreted"],
      },
    },
    {
      what: "index.lock, op-heads lock, packed-refs lock held 0.2 s / forever / by a dead process → bounded retry, then a journaled failure; never deletes another's lock",
      by: {
        [LOCKS]: [
          "jj's lock on its operation heads",
          "git's packed-refs.lock",
          "held for a moment → waited for, told in the same call",
          "held for ever → given up, refused, what was to be done is durable",
          "a dead process has left the file of jj's lock behind",
          "a dead git has left packed-refs.lock behind → refused twice",
        ],
        "cascade/git-locks.test.ts": [
          "git's index lock is left over in the child → refused, nothing moved, lock still there",
        ],
        "backends/jj/git-locks.test.ts": [
          "held for a moment → done after it is released",
          "left over → jj-locked, the file named and still there",
        ],
        "backends/jj/mutate.test.ts": [
          "held for ever → jj-locked in time, no jj left running",
          "git's packed-refs held for ever → jj-locked after bounded tries",
        ],
      },
    },
    {
      what: "git too old for this jj → kk doctor and kk new say so before anything is created",
      by: {
        "e2e/bad-input.test.ts": [
          "git too old",
          "kk new with %s → one line with the version that is needed, nothing created; kk doctor says it as well",
        ],
        "backends/jj/versions.test.ts": ["git-too-old"],
      },
    },
    {
      what: "workspace directory × jj record: all four combinations of present and absent → classified, repair idempotent",
      by: {
        [CREATION]: [
          "workspace: record and folder present → adopted",
          "workspace: neither present → made",
          "workspace: folder with files, no record → CreateFailed",
          "workspace: record, folder gone → CreateFailed",
        ],
        "core/projection.test.ts": ["folder gone", "WorkspaceDirectoryMissing"],
        "e2e/person.test.ts": ["folder moved → issues by the glossary's names"],
        "repair/creation.test.ts": [
          "clean-up: undoing had stopped half-way → undone to its end first",
          "id: state changed since → stale, refused by name; changed back → the same id again",
        ],
      },
    },
    {
      what: "jj slow (30 s) → hook in budget; daemon marks itself degraded",
      by: {
        [SLOW]: [
          "while a move is being read → calls pass while it does; degraded",
          "at a boundary with work → told to hold at once, refused when jj is given up",
        ],
        "e2e/slow-jj.test.ts": [
          "the agent's call runs meanwhile, kk doctor and kk daemon status say degraded",
        ],
        "cascade/wake.test.ts": [
          "a reading takes long → degraded with how long",
          "a reading fails → degraded with the reason",
        ],
      },
    },
    {
      what: "bookmark names jj accepts and git refuses, workspace names with newline or colon, non-UTF-8 file names → refused before create with the rule named; non-UTF-8 files kept byte for byte in bundles",
      by: {
        [THREADS]: ["bookmark: names jj takes and git does not → refused"],
        "core/names.test.ts": ["any name at all → refused, or fit for path, bookmark, workspace"],
        "e2e/bad-input.test.ts": ["a name of punctuation only"],
        [EDITS]: ["a name that is not UTF-8: all at once"],
        "cascade/recover.test.ts": ["the operation the files are from is gone → loud"],
      },
    },
    {
      what: "a person rebases the child first, then kiki's turn, three times in a row → converges; no new commit ids",
      by: {
        "cascade/rebased-by-hand.test.ts": [
          "a person rebases the child's stack first, then kiki's turn, three times in a row",
          "told once each, ${what}, not one new commit id, no operation of kiki's",
        ],
      },
    },
    {
      what: "parent moves while a child is being created → base equals the parent's exact @ from one pinned operation",
      by: {
        [REAL]: [
          "base, anchor and the change below are its exact @ in the one operation that is recorded",
        ],
        [CREATION]: ["parent rewritten between allocation and workspace → allocated anew"],
        "lifecycle/creation-parent-head.test.ts": ["the head does not go back"],
      },
    },
    {
      what: "op store garbage-collected under a stale workspace → never auto-updated; recovery",
      by: {
        [BEHIND]: [
          "the operations that a stale workspace's files are from are abandoned",
          "never updated: paused for a person, every file bundled and untouched",
        ],
      },
    },
    {
      what: "snapshot.auto-update-stale = true in the user's config → warned in doctor; agent's own jj cannot lose edits unnoticed",
      by: {
        "e2e/no-events.test.ts": ["snapshot.auto-update-stale is on in"],
        "backends/jj/auto-update-stale.test.ts": ["on at level %s → its file"],
        [BEHIND]: [
          "agent's own jj puts unrecorded edits beside its revision",
          "agent's own jj updates its clean stale files",
          "kiki's own commands do not go by it",
        ],
      },
    },
    {
      what: "colocated and non-colocated repos; git HEAD after a cascade → HEAD is the parent of @ when colocated",
      by: {
        "cascade/cascade.test.ts": [
          "HEAD is the parent of the working copy",
          "exactly the child's chain is rebased, staged and integrated",
        ],
        "cascade/recover.test.ts": ["scenario 2: rewrite after an unsnapshotted edit"],
        "cascade/git-locks.test.ts": ["HEAD put back, then forward with the files"],
        "contract/jj-scenarios-recovery.ts": [
          "gitHead of a workspace that is not colocated → null",
        ],
      },
    },
    {
      what: "agent runs jj undo, jj op restore, jj abandon on someone else's change → TopologyDiverged, nothing adopted silently",
      by: {
        [TAKEN]: [
          "the child's agent takes back what the parent did",
          "TopologyDiverged, loud, no file changed by kiki",
          "the parent's agent abandons the child's revision → TopologyDiverged, every file stays",
          "the parent's agent restores an operation from before the child → TopologyDiverged",
          "restores an operation from before what the child recorded since → TopologyDiverged",
          "a sibling's agent abandons the child's revision, the parent has not moved → TopologyDiverged at once",
          "jj refuses by itself",
          "a thread takes back what it did itself",
        ],
      },
    },
  ],
};

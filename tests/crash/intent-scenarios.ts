/**
 * Stories that pass every crash point an intent has today. A story says what a parent, a person and the agent do; it
 * never asks whether a daemon died meanwhile.
 */
import type { IntentCrashPoint } from "../../src/core/intent.ts";
import { insertOperation } from "../../src/store/lifecycle-ops.ts";
import { approveNextOperation } from "../support/approval.ts";
import { CHILD } from "./intent-threads.ts";
import { advance, amend, call, edit, look, type Story } from "./intent-stories.ts";
import type { IntentWorld } from "./intent-world.ts";
import { SERIAL_STORIES } from "./serial-stories.ts";

/** A person gives up, under an approval, what cannot be followed; if the daemon dies over it, the next one is asked. */
async function giveUp(w: IntentWorld): Promise<void> {
  const operationId = w.ids.uuid();
  approveNextOperation(w.outside);
  insertOperation(w.outside, {
    operationId,
    threadId: CHILD,
    kind: "Repair",
    args: { repair: "edge" },
    steps: [],
    now: w.clock.now(),
  });
  let waits = true;
  while (waits)
    await w.during(async ({ troubles }) => {
      const intent = troubles.of(CHILD);
      if (intent !== null) await troubles.settle(intent.intentId, { do: "discard" }, operationId);
      waits = false;
    });
}

/** At a crash point, whoever gets there first. */
function at(w: IntentWorld, point: IntentCrashPoint, act: () => void): void {
  w.once.set(point, act);
}

/** The agent's call waits for the step that matches, if it gets there. */
async function callUntil(w: IntentWorld, hold: RegExp): Promise<boolean> {
  w.respond([look]);
  await w.drive({ hold });
  return w.agent.steps().some((s) => !s.fault && hold.test(s.name));
}

const nativeRewrite = async (w: IntentWorld): Promise<void> => {
  await amend(w, "two\n");
  await call(w, 2);
};

/** The everyday race: edits without jj while the parent moves. */
const staleEdits = async (w: IntentWorld): Promise<void> => {
  await edit(w);
  await amend(w, "two\n");
  await call(w, 2);
};

const parentAdvance = async (w: IntentWorld): Promise<void> => {
  await edit(w);
  await advance(w, "lexer.txt");
  await call(w, 2);
};

/** The hook dies with the payload in its hands: the model gets a refusal without it. */
const killedHook = async (w: IntentWorld): Promise<void> => {
  await amend(w, "two\n");
  if (await callUntil(w, /marks delivered/)) w.agent.hook(lastCall(w)).killSidecar();
  await w.drive();
};

function lastCall(w: IntentWorld): string {
  return w.agent.main.batch!.calls.at(-1)!.id;
}

/** The agent is given the payload; its turn is ended by the person before the batch has closed. */
async function escaped(w: IntentWorld): Promise<void> {
  await callUntil(w, /batch closes$/);
  if (!w.agent.alive) return;
  w.agent.escape();
  w.agent.prompt("do this instead");
  await w.drive();
}

/** The end of a tool whose beginning neither a daemon nor a file knows. */
function unseen(w: IntentWorld): void {
  if (!w.agent.alive) return;
  w.agent.fireLoose(
    "PostToolUse",
    { tool_name: "Bash", tool_use_id: "toolu_unseen", tool_input: {}, tool_response: "ran" },
    "unseen",
  );
}

/** Two operation heads, as two jj commands at once leave them. */
function forkHeads(w: IntentWorld): void {
  const { head } = w.jj;
  w.files.as("jj", () => {
    w.jj.personAt(head, "default").describe("one head");
    w.jj.personAt(head, "default").describe("another head");
  });
}

export const STORIES: readonly Story[] = [
  { name: "native rewrite", tell: nativeRewrite },
  { name: "native rewrite, colocated", colocated: true, tell: nativeRewrite },
  { name: "parent advance, edits jj has not seen", tell: parentAdvance },
  { name: "parent advance, colocated", colocated: true, tell: parentAdvance },
  {
    name: "two transitions before one boundary, stale files",
    updates: 2,
    async tell(w) {
      await amend(w, "two\n");
      await advance(w, "lexer.txt");
      await call(w, 2);
    },
  },
  {
    name: "three calls at once",
    async tell(w) {
      await amend(w, "two\n");
      w.respond([look, look, look]);
      await w.drive();
      await call(w);
    },
  },
  {
    name: "a person brings the child up to date",
    async tell(w) {
      await amend(w, "two\n");
      w.somebody("child", (person) => person.updateStale());
      await call(w, 2);
    },
  },
  {
    name: "both changed one file",
    async tell(w) {
      w.somebody("child", (person) => person.amend({ "parser.txt": "one\nmore\n" }));
      await w.refresh();
      await amend(w, "other\n");
      await call(w, 2);
    },
  },
  {
    name: "a later transition is covered",
    async tell(w) {
      await amend(w, "two\n");
      at(w, "intent.Detected-Reconciling.completed", () =>
        w.somebody("parent", (person) => person.amend({ "parser.txt": "three\n" })),
      );
      await call(w, 3);
    },
  },
  {
    name: "the parent comes back",
    async tell(w) {
      await amend(w, "two\n");
      w.somebody("parent", (person) => person.undo());
      await w.refresh();
      await call(w, 2);
    },
  },
  {
    name: "the parent goes backward after a transition",
    loud: true,
    async tell(w) {
      await advance(w, "lexer.txt");
      const main = w.jj.engine.store.commit(w.jj.at("default")!).parents[0]!;
      w.somebody("parent", (person) => person.new({ on: [main] }));
      w.somebody("parent", (person) => person.edit(main));
      await w.refresh();
      await call(w, 2);
    },
  },
  {
    name: "the parent goes backward at once",
    loud: true,
    async tell(w) {
      const main = w.jj.engine.store.commit(w.jj.at("default")!).parents[0]!;
      w.somebody("parent", (person) => person.edit(main));
      await w.refresh();
      await call(w, 2);
    },
  },
  {
    name: "the parent goes backward, and a person gives that up",
    async tell(w) {
      const main = w.jj.engine.store.commit(w.jj.at("default")!).parents[0]!;
      w.somebody("parent", (person) => person.edit(main));
      await w.refresh();
      await call(w);
      await giveUp(w);
      await call(w);
    },
  },
  {
    name: "somebody's revision stands on the child",
    loud: true,
    async tell(w) {
      w.somebody("default", (person) => person.new({ on: [w.jj.at(w.threads.child.workspace)!] }));
      await w.refresh();
      await advance(w, "lexer.txt");
      await call(w, 2);
    },
  },
  { name: "edits on stale files", updates: 2, tell: staleEdits },
  { name: "edits on stale files, colocated", colocated: true, updates: 2, tell: staleEdits },
  {
    name: "edits and a git commit on stale files",
    colocated: true,
    updates: 2,
    async tell(w) {
      await edit(w);
      w.files.as("edit", () => void w.jj.in(w.threads.child.workspace).gitCommit("the agent's"));
      await amend(w, "two\n");
      await call(w, 2);
    },
  },
  {
    name: "edits on stale files, and a thread that follows jj's old record",
    updates: 2,
    async tell(w) {
      w.somebody("child", (person) => person.status());
      await edit(w);
      await amend(w, "two\n");
      await call(w, 2);
    },
  },
  {
    name: "edits on stale files, the parent adds a revision",
    updates: 3,
    async tell(w) {
      await edit(w);
      await amend(w, "two\n");
      await advance(w, "lexer.txt");
      await call(w, 3);
    },
  },
  {
    name: "an edit lands during the update",
    // Where that update fails as well, nobody can tell whose the difference is.
    frail: true,
    updates: 2,
    async tell(w) {
      await amend(w, "two\n");
      at(w, "intent.update-stale.before", () => w.lateEdit());
      await call(w, 2);
    },
  },
  {
    name: "jj is killed in the middle of the files",
    async tell(w) {
      await amend(w, "two\n");
      at(w, "intent.update-stale.before", () => w.tearNext());
      await call(w, 2);
    },
  },
  {
    name: "edits on stale files, jj is killed while it brings them back",
    updates: 3,
    async tell(w) {
      await edit(w);
      await amend(w, "two\n");
      at(w, "intent.edit.before", () => w.tearNext());
      await call(w, 2);
    },
  },
  {
    name: "edits where the child was changed elsewhere",
    loud: true,
    async tell(w) {
      await edit(w);
      await amend(w, "two\n");
      w.somebody("default", (person) =>
        person.describe("renamed", w.jj.at(w.threads.child.workspace)!),
      );
      await w.refresh();
      await call(w, 2);
    },
  },
  {
    name: "the hook dies with the payload",
    frail: true,
    async tell(w) {
      await killedHook(w);
      await call(w, 2);
    },
  },
  {
    name: "the hook's report of the delivery is lost",
    async tell(w) {
      await amend(w, "two\n");
      if (await callUntil(w, /marks delivered/)) {
        w.deaf = true;
        w.agent.step(/marks delivered/);
        await w.drive({ until: () => !w.agent.hooks.some((h) => h.event === "PreToolUse") });
        w.deaf = false;
      }
      await w.drive();
      await call(w);
    },
  },
  {
    name: "a person presses Esc at a bound barrier",
    async tell(w) {
      await amend(w, "two\n");
      await escaped(w);
      await call(w, 2);
    },
  },
  {
    name: "the agent dies with the payload",
    async tell(w) {
      await amend(w, "two\n");
      await call(w);
      w.agent.crash();
      await call(w, 2);
    },
  },
  {
    name: "the agent dies twice with the payload",
    async tell(w) {
      await amend(w, "two\n");
      await call(w);
      w.agents.stillborn = 1;
      w.agent.crash();
      await call(w, 2);
    },
  },
  {
    name: "a tool of a batch that nobody saw begin, parent amends",
    async tell(w) {
      unseen(w);
      await amend(w, "two\n");
      await call(w, 2);
    },
  },
  {
    name: "a tool of a batch that nobody saw begin, parent advances, edits jj has not seen",
    async tell(w) {
      await edit(w);
      unseen(w);
      await advance(w, "lexer.txt");
      await call(w, 2);
    },
  },
  {
    name: "a restart finds that the parent cannot be followed",
    loud: true,
    async tell(w) {
      unseen(w);
      w.somebody("default", (person) => person.new({ on: [w.jj.at(w.threads.child.workspace)!] }));
      await w.refresh();
      await advance(w, "lexer.txt");
      await call(w, 2);
    },
  },
  {
    name: "no replacement becomes ready, and a person grants another cycle",
    async tell(w) {
      await amend(w, "two\n");
      await escaped(w);
      w.agents.stillborn = 3;
      await call(w);
      await w.retryDelivery();
      await call(w, 2);
    },
  },
  {
    name: "a call passes while the barrier is being set",
    async tell(w) {
      await amend(w, "two\n");
      at(w, "intent.marker-written.before", () => {
        const hook = w.agent.hooks.find((h) => h.event === "PreToolUse");
        hook?.killSidecar();
        hook
          ?.steps()
          .find((s) => /records its pass/.test(s.name))
          ?.take();
      });
      w.respond([look, look]);
      await w.drive();
      await call(w, 3);
    },
  },
  {
    name: "bound, and jj has two heads for a while",
    frail: true,
    async tell(w) {
      await amend(w, "two\n");
      at(w, "intent.Detected-Reconciling.completed", () => forkHeads(w));
      await call(w);
      w.mergeHeads();
      await w.refresh();
      await call(w, 2);
    },
  },
  {
    name: "a refused tool runs, delivered",
    loud: true,
    disobedient: true,
    async tell(w) {
      w.agent.misbehaviour = { runsDenied: () => true };
      await amend(w, "two\n");
      await call(w, 2);
    },
  },
  {
    name: "a refused tool runs during a parent advance",
    loud: true,
    disobedient: true,
    async tell(w) {
      w.agent.misbehaviour = { runsDenied: () => true };
      await advance(w, "lexer.txt");
      await call(w, 2);
    },
  },
  {
    name: "a refused tool runs, nothing delivered",
    loud: true,
    disobedient: true,
    async tell(w) {
      w.agent.misbehaviour = { runsDenied: () => true };
      await killedHook(w);
      await call(w);
    },
  },
  ...SERIAL_STORIES,
];

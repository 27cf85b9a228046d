/** Stories of a child whose harness runs one call at a time and whose session record is the witness. */
import { advance, amend, call, edit, look, type Story } from "./intent-stories.ts";
import type { IntentWorld } from "./intent-world.ts";

/** What the model gets of its next refusals is something else; of those of this process. */
function garbles(w: IntentWorld, refusals: number): void {
  let left = refusals;
  w.agent.misbehaviour = {
    alters(text) {
      left -= 1;
      return left < 0 ? text : `${text.slice(0, text.indexOf(":") + 2)}garbled`;
    },
  };
}

/** The model has nothing more to say; a person asks for more. */
async function endsTurn(w: IntentWorld): Promise<void> {
  if (w.agent.main.thinking) w.agent.main.finish();
  await w.drive();
  if (w.agent.alive && w.agent.main.idle) w.agent.prompt("go on");
  await w.drive();
}

/** Two calls in one response. */
async function both(w: IntentWorld, hold?: RegExp): Promise<void> {
  w.respond([look, look]);
  await w.drive(hold === undefined ? {} : { hold });
}

const told = (name: string, tell: Story["tell"], more: Partial<Story> = {}): Story => ({
  name: `serial: ${name}`,
  serial: true,
  tell,
  ...more,
});

export const SERIAL_STORIES: readonly Story[] = [
  told("told at one call, completed by the next", async (w) => {
    await amend(w, "two\n");
    await call(w, 2);
  }),
  told("parent advance, edits jj has not seen", async (w) => {
    await edit(w);
    await advance(w, "lexer.txt");
    await call(w, 2);
  }),
  told(
    "edits on stale files",
    async (w) => {
      await edit(w);
      await amend(w, "two\n");
      await call(w, 2);
    },
    { updates: 2 },
  ),
  told("completed by the turn's end", async (w) => {
    await amend(w, "two\n");
    await call(w);
    await endsTurn(w);
    await call(w);
  }),
  told(
    "the payload is lost once",
    async (w) => {
      garbles(w, 1);
      await amend(w, "two\n");
      await call(w, 3);
    },
    { passes: "intent.rebound.completed" },
  ),
  told(
    "the payload is lost once, seen at the turn's end",
    async (w) => {
      garbles(w, 1);
      await amend(w, "two\n");
      await call(w);
      await endsTurn(w);
      await call(w, 2);
    },
    { passes: "intent.rebound.completed" },
  ),
  told(
    "the payload is lost twice",
    async (w) => {
      garbles(w, 2);
      await amend(w, "two\n");
      await call(w, 4);
    },
    { passes: "intent.restarting.completed" },
  ),
  told("the receipt is read later", async (w) => {
    await amend(w, "two\n");
    await call(w);
    w.hidesResults(true);
    await call(w);
    w.hidesResults(false);
    await call(w);
  }),
  told(
    "the receipt is not read, and more work comes",
    async (w) => {
      await amend(w, "two\n");
      await call(w);
      w.hidesResults(true);
      await amend(w, "three\n");
      await call(w);
      w.hidesResults(false);
      await call(w, 3);
    },
    { passes: "intent.restarting.completed" },
  ),
  told("two calls at once are blocked together", async (w) => {
    await amend(w, "two\n");
    await both(w);
    await call(w);
  }),
  told("the second of two calls waits for the first", async (w) => {
    await both(w, /: finishes/);
    await amend(w, "two\n");
    await w.drive();
    await call(w, 2);
  }),
  told(
    "two calls at once again and again",
    async (w) => {
      await both(w);
      await both(w);
      await amend(w, "two\n");
      await call(w, 2);
    },
    { passes: "intent.restarting.completed" },
  ),
  told(
    "a person breaks the turn off at a blocked call",
    async (w) => {
      await amend(w, "two\n");
      w.respond([look]);
      await w.drive({ hold: /takes the results up/ });
      if (w.agent.alive && !w.agent.main.idle) w.agent.escape();
      await w.drive();
      if (w.agent.alive && w.agent.main.idle) w.agent.prompt("do this instead");
      await w.drive();
      await call(w, 2);
    },
    { passes: "intent.restarting.completed" },
  ),
];

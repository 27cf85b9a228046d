/** A sibling that waits for the first call of its response, when nothing can be read any more. */
import { expect, test } from "bun:test";
import { Boundary } from "../../src/cascade/boundary.ts";
import type { CascadeDeps } from "../../src/cascade/deps.ts";
import { releaseAfterFirst } from "../../src/cascade/siblings.ts";
import { FakeClock } from "../fakes/clock.ts";

test("sibling waits, its database is gone → logged, nothing thrown: the hook's own limit is its answer", async () => {
  const boundary = new Boundary();
  const call = { agentId: "", ordinal: 1, promptId: null, toolUseId: "call_2", toolName: "Bash" };
  const hold = boundary.add("token", call, 0);
  const said: string[] = [];
  const query = (): never => {
    throw new RangeError("Cannot use a closed database");
  };
  const deps = {
    clock: new FakeClock(),
    settings: { holdMs: 1_000 },
    db: { query },
    log: { error: (line: string) => void said.push(line) },
  } as unknown as CascadeDeps;
  await releaseAfterFirst({
    deps,
    boundary,
    caller: { threadId: "t", incarnation: "i" },
    hold,
    drain: () => Promise.resolve(),
    stopped: () => false,
  });
  expect(said.length).toBeGreaterThan(0);
});

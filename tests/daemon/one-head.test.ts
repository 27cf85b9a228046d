/** One view to stand on while agents' jj commands overlap. */
import { expect, test } from "bun:test";
import { oneHead } from "../../src/daemon/one-head.ts";

/** Time passes by sleeping alone. */
function clock() {
  let now = 0;
  return {
    monotonic: () => now,
    sleep: (ms: number) => {
      now += ms;
      return Promise.resolve();
    },
  };
}

test("several heads, merged by the next jj command → that head", async () => {
  let reads = 0;
  const heads = () => Promise.resolve((reads += 1) < 10 ? ["a", "b"] : ["c"]);
  expect(await oneHead(heads, clock())).toBe("c");
});

test("several heads that nobody merges → several-op-heads with what to do, after five seconds", async () => {
  const time = clock();
  const error: unknown = await oneHead(() => Promise.resolve(["a", "b"]), time).catch(
    (e: unknown) => e,
  );
  expect(error).toMatchObject({
    code: "several-op-heads",
    hint: "run jj log once, then try again",
  });
  expect(time.monotonic()).toBe(5_000);
});

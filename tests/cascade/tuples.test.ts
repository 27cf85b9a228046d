/** What hooks report of two turns, in any order, twice, late, or of somebody else: only the exact call, batch and turn count. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { openAttention } from "../../src/store/attention.ts";
import { randomOf, testSeed } from "../support/random.ts";
import { removeTempDirs } from "../support/temp.ts";
import { makePair } from "./pair.ts";
import type { Rig } from "./rig.ts";

setDefaultTimeout(120_000);
const ROUNDS = 8;
let rig: Rig;
afterAll(async () => {
  await rig.close();
  removeTempDirs();
});

interface Report {
  what: string;
  does: () => Promise<unknown>;
  /** Whether it may change anything of the intent. */
  exact: "delivery" | "closing" | false;
}

test("reports of an earlier turn, of another batch, turn, intent or agent, doubled and in any order → nothing but the exact ones moves the intent; afterwards none does", async () => {
  const seed = testSeed();
  console.info(`orders of seed ${seed} (KIKI_TEST_SEED=${seed} runs the same again)`);
  const random = randomOf(seed);
  function shuffled<T>(from: readonly T[]): T[] {
    const left = [...from];
    return from.map(() => left.splice(random.below(left.length), 1)[0]!);
  }
  const { parent, child, agent, ...made } = await makePair({ before: { "parser.txt": "0\n" } });
  rig = made.rig;
  const own = { threadId: child.id, incarnation: child.incarnation };
  const foreign = { threadId: parent.id, incarnation: parent.incarnation };

  for (let round = 0; round < ROUNDS; round += 1) {
    const seen: string[] = [];
    const row = () => rig.intents(child)[round]!;
    const note = () => `seed ${seed}, round ${round}: ${seen.join(" · ")}`;
    // The turn before: one batch, which ran.
    agent.prompt = `prompt ${round}a`;
    const before = await agent.batch(2);
    rig.repo.write("parser.txt", `${round + 1}\n`, parent.path);
    await rig.repo.jj(["status"], parent.path);
    await rig.cascade.refreshToFrontier();
    // This turn: two calls at once, both refused; what the hooks say of it is still on its way.
    const ids = [agent.newId(), agent.newId()];
    const asked = await Promise.all(ids.map((id) => agent.ask(id)));
    const answers = await Promise.all(
      asked.map(async (answer, i) => {
        const end = answer.decision === "hold" ? await agent.confirm(answer.token) : answer;
        if (end.decision !== "deny" || end.delivered === undefined) throw new Error("not refused");
        return { toolUseId: ids[i]!, text: end.output, delivered: end.delivered };
      }),
    );
    const { payload } = row();
    expect(answers.map((a) => a.text)).toEqual([payload!, payload!]);
    expect(row().state).toBe("Materialized");
    const { intentId, turn, batch } = answers[0]!.delivered;
    const marks =
      (id: string, t: number, b: number, caller = own) =>
      () =>
        Promise.resolve(rig.cascade.markDelivered(caller, id, t, b));

    const noise: Report[] = [
      ["later turn", marks(intentId, turn + 1, batch)] as const,
      ["later batch", marks(intentId, turn, batch + 1)] as const,
      ["earlier batch and turn", marks(intentId, turn - 1, batch - 1)] as const,
      ["another intent", marks(crypto.randomUUID(), turn, batch)] as const,
      ["another agent", marks(intentId, turn, batch, foreign)] as const,
      ["closing of the turn before", () => agent.close(before)] as const,
      ["closing by a sub-agent", () => agent.close(answers, "sub-agent")] as const,
    ].flatMap(([what, does]) => [
      { what, does, exact: false as const },
      { what: `${what}, again`, does, exact: false as const },
    ]);
    const exact: Report[] = [1, 2].flatMap((n) => [
      { what: `delivered ${n}`, does: marks(intentId, turn, batch), exact: "delivery" as const },
      { what: `closing ${n}`, does: () => agent.close(answers), exact: "closing" as const },
    ]);
    const order = shuffled([...noise, ...exact]);
    // A call is asked about again only while its batch is open.
    const closes = order.findIndex((report) => report.exact === "closing");
    const again = shuffled(ids).map((id): Report => {
      return {
        what: `asked again for ${id}`,
        does: async () => expect((await agent.call(id, null, false)).text).toBe(payload!),
        exact: false,
      };
    });
    for (const report of again) order.splice(random.below(closes + 1), 0, report);

    let [delivered, closed] = [false, false];
    for (const report of order) {
      seen.push(report.what);
      const was = row();
      await report.does();
      const moves =
        (report.exact === "delivery" && !delivered) || (report.exact === "closing" && !closed);
      if (!moves) expect([note(), row()]).toEqual([note(), was]);
      delivered ||= report.exact === "delivery";
      closed ||= report.exact === "closing";
      expect([note(), row().payload, row().receipt]).toEqual([
        note(),
        payload,
        closed ? "matching" : null,
      ]);
      expect([note(), row().state]).toEqual([note(), delivered ? "Delivered" : row().state]);
      expect(["Materialized", "Delivered"]).toContain(row().state);
    }

    // The next turn's first call, and only that, shows that the agent knows.
    agent.prompt = `prompt ${round}b`;
    const next = await agent.call();
    expect([note(), next.text, row().state]).toEqual([note(), null, "Acknowledged"]);
    const end = JSON.stringify(rig.intents(child));
    for (const report of shuffled([...noise, ...exact])) await report.does();
    expect([note(), JSON.stringify(rig.intents(child))]).toEqual([note(), end]);
    await agent.close([next]);
    expect((await agent.batch())[0]!.text).toBeNull();
  }
  expect(rig.intents(child)).toHaveLength(ROUNDS);
  expect(openAttention(rig.db, child.id)).toEqual([]);
});

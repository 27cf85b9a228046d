/** A denied call does not run, and the model gets exactly what kiki said, up to the version's own limit. */
import { readFileSync } from "node:fs";
import { agent, bash, say } from "../model.ts";
import type { Evidence, Proof, ProofRun } from "../proof.ts";
import { reasonOf } from "../reason.ts";
import { claude } from "./row.ts";
import { ClaudeScene } from "./scene.ts";

const NEEDED = ["structured_tool_hooks", "parallel_batch_boundary"] as const;
/** Beyond 50,000 UTF-16 units 2.1.332 cuts the middle out. */
const ABOVE_LIMIT = 60_000;

async function denied(run: ProofRun, units: number): Promise<{ scene: ClaudeScene } & Told> {
  return ClaudeScene.use(
    run,
    {
      scripts: (scene) => ({
        one: [() => [bash(`touch ${scene.file("ran.txt")}`, "toolu_one")], () => [say("Done.")]],
      }),
    },
    async (scene) => {
      const reason = reasonOf(units);
      scene.recorder.denyWith(scene.harness.denyOutput(reason));
      await scene.print({ prompt: "SCRIPT:one" });
      const got = scene.told("toolu_one") ?? "";
      const expected = scene.harness.expectedResult(reason, { toolName: "Bash" });
      return { scene, got, expected, ran: scene.has("ran.txt") };
    },
  );
}

interface Told {
  got: string;
  expected: string;
  ran: boolean;
}

function exact({ got, expected, ran }: Told): Evidence {
  const same = Buffer.from(got).equals(Buffer.from(expected));
  return {
    holds: same && !ran,
    seen: `${Buffer.byteLength(got)} of ${Buffer.byteLength(expected)} bytes, ${same ? "the same" : "not the same"}; the tool ${ran ? "ran" : "did not run"}`,
  };
}

const fidelity = [
  { id: "deny-1k", units: 1024 },
  { id: "deny-16k", units: 16 * 1024 },
].map(({ id, units }) =>
  claude(
    id,
    `a denial of ${units} UTF-16 units arrives byte for byte and the tool does not run`,
    `a text of ${ABOVE_LIMIT} units, above the version's limit`,
    NEEDED,
    async (run) => exact(await denied(run, run.inverted ? ABOVE_LIMIT : units)),
  ),
);

export const denials: readonly Proof[] = [
  ...fidelity,
  claude(
    "deny-above-limit",
    `a denial of ${ABOVE_LIMIT} units is cut, and the tool still does not run`,
    "a text below the limit",
    [],
    async (run) => {
      const told = await denied(run, run.inverted ? 1024 : ABOVE_LIMIT);
      const evidence = exact(told);
      return { holds: !evidence.holds && told.got !== "" && !told.ran, seen: evidence.seen };
    },
  ),
  claude(
    "deny-sub-agent",
    "a sub-agent's refused call does not run, and the event that closes its batch has the words in the same wrapper",
    "the call is passed",
    NEEDED,
    (run) => {
      const reason = reasonOf(1024);
      return ClaudeScene.use(
        run,
        {
          scripts: (scene) => ({
            one: [() => [agent("SCRIPT:helper", "general-purpose")], () => [say("Done.")]],
            helper: [
              () => {
                if (!run.inverted) scene.recorder.denyWith(scene.harness.denyOutput(reason));
                return [bash(`touch ${scene.file("ran.txt")}`, "toolu_helper")];
              },
              () => [say("Helped.")],
            ],
          }),
        },
        async (scene) => {
          await scene.print({ prompt: "SCRIPT:one" });
          const got = scene.recorder
            .hooks("PostToolBatch")
            .map(({ payload }) => payload)
            .filter((payload) => payload["agent_id"] !== undefined)
            .flatMap((payload) => payload["tool_calls"] as { tool_response?: unknown }[])
            .map((call) => call.tool_response)[0];
          const expected = scene.harness.expectedResult(reason, { toolName: "Bash" });
          return {
            holds: got === expected && !scene.has("ran.txt"),
            seen: JSON.stringify(got).slice(0, 120),
          };
        },
      );
    },
  ),
  claude(
    "deny-in-record",
    "the session record holds the denial exactly as the model got it",
    "the call is passed",
    ["quiescence_detection"],
    (run) =>
      ClaudeScene.use(
        run,
        { scripts: () => ({ one: [() => [bash("echo one", "toolu_one")], () => [say("Done.")]] }) },
        async (scene) => {
          const reason = reasonOf(1024);
          if (!run.inverted) scene.recorder.denyWith(scene.harness.denyOutput(reason));
          await scene.print({ prompt: "SCRIPT:one" });
          const path = String(scene.recorder.hooks("SessionStart")[0]?.payload["transcript_path"]);
          const expected = scene.harness.expectedResult(reason, { toolName: "Bash" });
          const record = readFileSync(path, "utf8");
          return {
            holds: record.includes(JSON.stringify(expected).slice(1, -1)),
            seen: `a record of ${record.length} characters`,
          };
        },
      ),
  ),
];

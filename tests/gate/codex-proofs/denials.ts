/** A denied call does not run, and the model gets exactly what kiki said, up to the limit that kiki raises. */
import { patch, patchText, exec, say } from "../codex-model.ts";
import type { Evidence, Proof, ProofRun } from "../proof.ts";
import { reasonOf } from "../reason.ts";
import { codex } from "../codex-row.ts";
import { CodexScene, type StartChanges } from "./scene.ts";

const NEEDED = ["structured_tool_hooks", "parallel_batch_boundary"] as const;
/** What Codex itself shows the model of a result, bytes; kiki raises it to ten times that. */
const OWN_LIMIT = 48_000;
const ABOVE_OWN_LIMIT = 60_000;
const ABOVE_LIMIT = 520_000;
const NOT_RAISED = ["tool_output_token_limit=10000"];

const TOOLS = {
  Bash: { item: exec("c_one", "touch ran.txt # é 'q'"), command: "touch ran.txt # é 'q'" },
  apply_patch: { item: patch("c_one", "ran.txt"), command: patchText("ran.txt") },
} as const;
type Tool = keyof typeof TOOLS;

interface Told {
  got: string;
  expected: string;
  ran: boolean;
  post: number;
}

function denied(run: ProofRun, tool: Tool, units: number, start: StartChanges = {}): Promise<Told> {
  const scripts = () => ({ one: [[TOOLS[tool].item], [say("Done.")]] });
  return CodexScene.use(run, { scripts }, async (scene) => {
    const reason = reasonOf(units);
    scene.recorder.denyWith(scene.harness.denyOutput(reason));
    await scene.print({ prompt: "SCRIPT:one", ...start });
    const { command } = TOOLS[tool];
    return {
      got: scene.told("c_one") ?? "",
      expected: scene.harness.expectedResult(reason, { toolName: tool, command }),
      ran: scene.has("ran.txt"),
      post: scene.recorder.hooks("PostToolUse").length,
    };
  });
}

function exact({ got, expected, ran }: Told): Evidence {
  const same = Buffer.from(got).equals(Buffer.from(expected));
  return {
    holds: same && !ran,
    seen: `${Buffer.byteLength(got)} of ${Buffer.byteLength(expected)} bytes, ${same ? "the same" : "not the same"}; the tool ${ran ? "ran" : "did not run"}`,
  };
}

const fidelity = (Object.keys(TOOLS) as Tool[]).flatMap((tool) =>
  [1, 16].map((kib) =>
    codex(
      `deny-${kib}k-${tool.toLowerCase().replace("_", "-")}`,
      `a denial of ${kib * 1024} UTF-16 units arrives byte for byte in the wrapper for ${tool}, and the tool does not run`,
      `a text of ${ABOVE_LIMIT} units, above the raised limit`,
      NEEDED,
      async (run) => exact(await denied(run, tool, run.inverted ? ABOVE_LIMIT : kib * 1024)),
    ),
  ),
);

const scripts = () => ({ one: [[exec("c_one", "touch ran.txt")], [say("Done.")]] });

export const denials: readonly Proof[] = [
  ...fidelity,
  codex(
    "deny-above-own-limit",
    `a denial above Codex's own ${OWN_LIMIT} bytes arrives whole, because kiki raises the limit`,
    "the limit is not raised: the middle is cut out",
    NEEDED,
    async (run) => {
      const start = run.inverted ? { settings: NOT_RAISED } : {};
      const told = await denied(run, "Bash", ABOVE_OWN_LIMIT, start);
      if (run.inverted && told.ran) throw new Error("a denial that is cut lets the tool run");
      return exact(told);
    },
  ),
  codex(
    "deny-above-limit",
    `a denial of ${ABOVE_LIMIT} units is cut, and the tool still does not run`,
    "a text below the limit",
    [],
    async (run) => {
      const told = await denied(run, "Bash", run.inverted ? 1024 : ABOVE_LIMIT);
      const evidence = exact(told);
      return { holds: !evidence.holds && told.got !== "" && !told.ran, seen: evidence.seen };
    },
  ),
  codex(
    "deny-without-post-event",
    "a denied call does not run and fires no PostToolUse",
    "the call is passed",
    NEEDED,
    (run) =>
      CodexScene.use(run, { scripts }, async (scene) => {
        if (!run.inverted) scene.recorder.denyWith(scene.harness.denyOutput("[kiki] not now"));
        await scene.print({ prompt: "SCRIPT:one" });
        const events = scene.recorder.hooks().map(({ event }) => event);
        return {
          holds:
            events.includes("PreToolUse") &&
            !events.includes("PostToolUse") &&
            !scene.has("ran.txt"),
          seen: events.join(", "),
        };
      }),
  ),
  codex(
    "deny-in-record",
    "when the model is asked again, the session record holds the denial exactly as the model gets it",
    "looked at while the hook has not answered yet",
    ["parallel_batch_boundary", "quiescence_detection"],
    (run) => {
      const reason = reasonOf(16 * 1024);
      let found: string | undefined;
      return CodexScene.use(
        run,
        {
          scripts: (scene) => ({
            one: [
              [exec("c_one", "touch ran.txt")],
              () => {
                const path = run.inverted ? `${scene.folder}/at-hook.jsonl` : scene.recordPath;
                found = scene.harness.record(path)?.outputs.get("c_one");
                return [say("Done.")];
              },
            ],
          }),
        },
        async (scene) => {
          scene.recorder.denyWith(scene.harness.denyOutput(reason));
          scene.recorder.before(
            `cp '${scene.codexHome}'/sessions/*/*/*/*.jsonl '${scene.folder}/at-hook.jsonl'`,
          );
          await scene.print({ prompt: "SCRIPT:one" });
          const expected = scene.harness.expectedResult(reason, {
            toolName: "Bash",
            command: "touch ran.txt",
          });
          return {
            holds: found === expected && scene.told("c_one") === expected,
            seen: `the record says ${found === undefined ? "nothing" : `${found.length} characters`} of ${expected.length}`,
          };
        },
      );
    },
  ),
];

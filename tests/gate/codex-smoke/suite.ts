/** codex-smoke: the whole of kiki on the real Codex, in three worlds of their own. */
import type { LoopbackProof } from "../namespace.ts";
import type { GateOptions } from "../options.ts";
import type { Report } from "../report.ts";
import { receipts } from "./receipts.ts";
import { demo } from "./story.ts";
import { turns } from "./turns.ts";

export async function codexSmoke(
  report: Report,
  _proof: LoopbackProof,
  options: GateOptions,
): Promise<void> {
  const { only } = options;
  report.heading("codex-smoke: the demo's story on the real Codex");
  for (const [name, story] of Object.entries({ demo, turns, receipts }))
    if (only === null || name.includes(only)) await story(report, options);
}

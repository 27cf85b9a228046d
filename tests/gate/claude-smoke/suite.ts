import type { LoopbackProof } from "../namespace.ts";
import type { Report } from "../report.ts";
import type { GateOptions } from "../run.ts";
export async function claudeSmoke(_report: Report, _proof: LoopbackProof, _options: GateOptions): Promise<void> {}

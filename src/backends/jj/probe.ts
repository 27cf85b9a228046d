/** Placeholder until the probe lands in this file. */
import type { WorkspaceProbe } from "../../ports/jj.ts";
import type { JjContext } from "./context.ts";

export interface Prober {
  probe(workspaceRoot: string, workspace: string, op: string): Promise<WorkspaceProbe>;
}

export function createProber(_ctx: JjContext): Prober {
  return { probe: () => Promise.reject(new Error("probe: not there yet")) };
}

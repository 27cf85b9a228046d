/**
 * Ways in which kk-hook can fail a call, the same for every harness: it dies, means nothing, or is gone. Without a barrier
 * the call passes and a file says so, under one it is refused.
 */
import { existsSync, readdirSync, rmSync } from "node:fs";
import type { HookRecorder } from "../../src/backends/harness/hook-recorder.ts";
import type { Evidence } from "./proof.ts";

export interface Breakable {
  recorder: HookRecorder;
  /** Folder of the files that say a call passed without anybody asked. */
  passed: string;
}

export interface Outcome {
  ran: boolean;
  told: string;
  /** Files that say a call passed without anybody asked. */
  passed: number;
}

export const WAYS: readonly { id: string; what: string; breakIt: (scene: Breakable) => void }[] = [
  {
    id: "crash",
    what: "kk-hook is killed",
    breakIt: (scene) => scene.recorder.before("kill -9 $$"),
  },
  {
    id: "exit",
    what: "kk-hook ends with a code that means nothing",
    breakIt: (scene) => scene.recorder.before("exit 3"),
  },
  {
    id: "missing",
    what: "kk-hook is gone",
    breakIt: (scene) => rmSync(scene.recorder.executable),
  },
];

/** The beginning of a verdict: no JSON. */
export const GARBAGE = '{"hookSpecificOutput":{"hookEventName":"PreTool';

export function passedFiles(folder: string): number {
  if (!existsSync(folder)) return 0;
  return readdirSync(folder).filter((name) => !name.startsWith(".")).length;
}

export const seen = ({ ran, told, passed }: Outcome): string =>
  `the tool ${ran ? "ran" : "did not run"}, ${passed} passed file(s), the model got: ${told.slice(0, 160)}`;

export const passes = (o: Outcome): Evidence => ({ holds: o.ran && o.passed === 1, seen: seen(o) });
export const refuses = (o: Outcome): Evidence => ({
  holds: !o.ran && o.passed === 0 && o.told.includes("kiki"),
  seen: seen(o),
});

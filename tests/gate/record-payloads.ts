import type { RecordedHook } from "./hook-recorder.ts";
export function recordPayloads(hooks: readonly RecordedHook[], _dir: string): string[] { return hooks.map(h=>h.event); }

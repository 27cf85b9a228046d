/** What the model got for blocked calls, by whichever witness the harness has. */
import { judgeReceipt, judgeRecord, type ObservedReceipt, type Receipt } from "../core/barrier.ts";
import type { SessionRecord } from "../ports/harness.ts";
import { blockedCalls } from "../store/admissions.ts";
import { cascadeThread } from "../store/edges.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";

/** A batch that was blocked, and the payload that was to be its result; null: not prepared. */
export interface Blocked {
  /** "": the main agent's. */
  agentId: string;
  ordinal: number;
  payload: string | null;
}

type Expected = Parameters<typeof judgeReceipt>[0];

/** `responses`: what the closing event says that the model got, by call id. */
export function receiptOf(
  deps: CascadeDeps,
  caller: HookCaller,
  blocked: Blocked,
  responses: ReadonlyMap<string, string>,
): Receipt | "tool-ran" {
  return judgeReceipt(expected(deps, caller, blocked, new Map()), responses);
}

/** The same from the session record; null: it cannot be read. */
export function receiptIn(
  deps: CascadeDeps,
  caller: HookCaller,
  blocked: Blocked,
  record: SessionRecord | null,
): ObservedReceipt | "tool-ran" {
  const calls = expected(deps, caller, blocked, record?.commands ?? new Map());
  return judgeRecord(calls, record?.outputs ?? null);
}

function expected(
  deps: CascadeDeps,
  caller: HookCaller,
  { agentId, ordinal, payload }: Blocked,
  commands: ReadonlyMap<string, string>,
): Expected {
  const adapter = deps.harness(cascadeThread(deps.db, caller.threadId)!.harness);
  return blockedCalls(deps.db, caller.incarnation, agentId, ordinal).map(
    ({ toolUseId, toolName }) => {
      const call = { toolName, command: commands.get(toolUseId) };
      return {
        toolUseId,
        expected: payload === null ? "\0" : adapter.expectedResult(payload, call),
        // Anything inside the harness's own refusal wrapper did not run, whatever the text.
        generic: adapter.refusalPrefixes({ toolName }),
      };
    },
  );
}

/**
 * The hook's methods. The thread credential was checked by authentication; here the incarnation proves itself by its
 * own secret. An unidentified call is refused, never guessed.
 */
import { timingSafeEqual } from "node:crypto";
import { fail } from "../../core/errors.ts";
import type { DaemonCaller } from "../attempts.ts";
import { hashSecret } from "../../authority/identify.ts";
import type { Input } from "../../rpc/contract/methods.ts";
import type { Handlers } from "../../rpc/server.ts";
import { incarnation } from "../../store/edges.ts";
import type { RepoRuntime } from "../runtime.ts";

type HookMethod = "PreToolUseDecision" | "Hold" | "MarkDelivered" | "ReportEvent";

interface Identified {
  repo: RepoRuntime;
  caller: { threadId: string; incarnation: string };
}

export function hookHandlers(
  repoOf: (repoId: string) => RepoRuntime | undefined,
): Pick<Handlers<DaemonCaller>, HookMethod> {
  const identify = (
    caller: DaemonCaller,
    input: Pick<Input<"Hold">, "incarnation" | "secret">,
  ): Identified => {
    const repo = caller.kind === "ThreadScoped" ? repoOf(caller.repoId) : undefined;
    if (caller.kind !== "ThreadScoped" || repo === undefined) {
      throw fail("approval", "hook-not-identified", "this hook call carries no thread credential");
    }
    const row = incarnation(repo.db, input.incarnation);
    const proved =
      row !== null &&
      row.threadId === caller.threadId &&
      timingSafeEqual(Buffer.from(row.secretSha256), Buffer.from(hashSecret(input.secret)));
    if (!proved) {
      throw fail(
        "approval",
        "incarnation-not-identified",
        "this hook call comes from no known incarnation of its thread",
      );
    }
    if (row.retired) {
      throw fail(
        "approval",
        "incarnation-retired",
        "this agent's incarnation was replaced; it must not go on",
      );
    }
    return { repo, caller: { threadId: row.threadId, incarnation: row.incarnation } };
  };

  return {
    async PreToolUseDecision(input, context) {
      const who = identify(context.caller, input);
      const answer = await who.repo.cascade.preToolUse(who.caller, input.event);
      context.notes.detail["decision"] = answer.decision;
      return answer;
    },
    async Hold(input, context) {
      const who = identify(context.caller, input);
      return who.repo.cascade.hold(who.caller, input.token, context.signal);
    },
    MarkDelivered(input, context) {
      const who = identify(context.caller, input);
      who.repo.cascade.markDelivered(who.caller, input.intentId, input.turn, input.batch);
      return {};
    },
    async ReportEvent(input, context) {
      const who = identify(context.caller, input);
      await who.repo.cascade.event(who.caller, input.event);
      return {};
    },
  };
}

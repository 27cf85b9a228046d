/**
 * The hook's methods. The thread credential was checked by authentication; here the incarnation proves itself by its
 * own secret. An unidentified call is refused, never guessed.
 */
import { timingSafeEqual } from "node:crypto";
import { fail } from "../../core/errors.ts";
import type { Caller } from "../../authority/authenticate.ts";
import { hashSecret } from "../../authority/authenticate.ts";
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
): Pick<Handlers<Caller>, HookMethod> {
  const identify = (
    caller: Caller,
    input: Pick<Input<"Hold">, "incarnation" | "secret">,
  ): Identified => {
    const repo = caller.kind === "thread" ? repoOf(caller.repoId) : undefined;
    if (caller.kind !== "thread" || repo === undefined) {
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
      return who.repo.cascade.preToolUse(who.caller, input.event);
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

/** Every request from its arrival to its audit row: who, about what, whether they may, and what became of it. */
import { hashSecret, type Identify } from "../authority/identify.ts";
import { authorize, type Caller } from "../authority/enforcer.ts";
import { mask, type AuditWriter } from "../authority/audit.ts";
import type { Broker } from "../authority/broker.ts";
import type { Access } from "../core/access.ts";
import { METHODS, type MethodName } from "../rpc/contract/methods.ts";
import type { Attempt } from "../rpc/server.ts";
import type { ApprovalStore } from "../store/approvals.ts";
import { pinned, subjectOf, type Subject } from "./about.ts";
import type { Daemon } from "./runtime.ts";
import { storable } from "./storable.ts";

/** Whoever calls, with what the request turned out to be about. */
export type DaemonCaller = Caller & { subject: Subject };

export interface AttemptDeps {
  daemon: Daemon;
  identify: Identify;
  broker: Broker;
  audit: AuditWriter;
}

/** Longer values are cut: a row says what was asked for, not all of it. */
const MAX_DETAIL_CHARS = 200;

/** Whose tables have the approvals of a method: the repository's when it is about one. */
export function approvalStore(
  daemon: Daemon,
  access: Access,
  repoId: string | null,
): ApprovalStore {
  const repo = access.sink === "user" || repoId === null ? undefined : daemon.repos.get(repoId);
  return repo === undefined ? { db: daemon.userDb, prefix: "user_" } : { db: repo.db, prefix: "" };
}

export function makeAttempts(
  deps: AttemptDeps,
): (method: MethodName, header: string | null) => Attempt<DaemonCaller> {
  const { daemon, identify, broker } = deps;
  return (method, header) => {
    const { access } = METHODS[method];
    const requestId = daemon.world.ids.uuid();
    const who = identify(header);
    let subject: Subject | null = null;
    let approval: string | null = null;
    return {
      async authorize(input) {
        approval = (input as { approval?: string }).approval ?? null;
        const about = async (): Promise<Subject> => {
          subject = await subjectOf(daemon, method, input, who.identity);
          // About something nobody can find, a thread could be asking about anything.
          const limited = who.identity?.kind === "ThreadScoped" && access.threads === "own";
          if (limited && subject.failed !== null) throw subject.failed;
          return subject;
        };
        const caller = await authorize({
          method,
          access,
          who,
          about,
          approval,
          grant: (id) =>
            broker.grant(approvalStore(daemon, access, subject?.repoId ?? null), id, {
              credentialId: who.identity?.credentialId ?? "",
              method,
              target: subject?.target ?? "",
              args: storable(input as object, hashSecret),
            }),
        });
        const known = subject ?? (await about());
        // An approval is compared with the words of the request, what is done is about what they were found to mean.
        return {
          caller: { ...caller, subject: known },
          input: pinned(access.target, input, known),
        };
      },
      async record({ input, error, notes }) {
        const seen = subject ?? (await subjectOf(daemon, method, input, who.identity));
        const sink = sinkOf(deps, method, seen, input);
        const code = error ?? notes.refused ?? null;
        await deps.audit.append(sink.db, sink.sink, {
          requestId,
          at: daemon.world.clock.now(),
          method,
          threadId: seen.threadId,
          target: seen.target,
          callerKind: who.identity?.kind ?? null,
          credentialId: who.identity?.credentialId ?? null,
          fingerprint: who.fingerprint,
          approvalId: approval,
          outcome: code === null ? "accepted" : "rejected",
          errorCode: code,
          detail: { ...recorded(access.audit, input), ...notes.detail },
        });
      },
    };
  };
}

/** A begin is about what the method it begins is about, and is kept where that one is. */
function sinkOf(
  { daemon }: AttemptDeps,
  method: MethodName,
  subject: Subject,
  input: unknown,
): { db: ApprovalStore["db"]; sink: "repo" | "user" } {
  const inner =
    method === "BeginApproval" ? (input as { method?: MethodName } | null)?.method : method;
  const access = METHODS[inner ?? method].access;
  const { db, prefix } = approvalStore(daemon, access, subject.repoId);
  return { db, sink: prefix === "" ? "repo" : "user" };
}

function recorded(fields: readonly string[], input: unknown): Record<string, unknown> {
  const values = input as Record<string, unknown> | null;
  const seen: [string, unknown][] = [];
  for (const field of fields) {
    const value = values?.[field];
    if (value === undefined) continue;
    seen.push([field, typeof value === "string" ? mask(value).slice(0, MAX_DETAIL_CHARS) : value]);
  }
  return Object.fromEntries(seen);
}

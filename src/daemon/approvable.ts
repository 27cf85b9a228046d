/**
 * The preflight of everything that needs a person's yes: one exact plan for exactly these arguments, made without
 * changing anything. What is done later is compared with its digest.
 */
import { hashSecret } from "../authority/identify.ts";
import { canonicalJson } from "../core/canonical.ts";
import { FULL_COLUMNS, PlanLayout } from "../core/render/plan.ts";
import type { Approvable } from "../rpc/contract/approvals.ts";
import { configured } from "./configured.ts";
import { resolveRepo, resolveThreadRef } from "./handlers/resolve.ts";
import { planRegister } from "./register.ts";
import type { Daemon } from "./runtime.ts";
import { storable } from "./storable.ts";
import { planUnregister } from "./unregister.ts";

export interface Planned {
  /** Laid out for a terminal of this width. */
  textFor(columns: number): string;
  /** Hex SHA-256 over method, arguments, observed state and the text at full width. */
  digest: string;
}

/** Errors as the preflights name them. */
export async function planOf(daemon: Daemon, request: Approvable): Promise<Planned> {
  switch (request.method) {
    case "NewThread": {
      const { repo: ref, ...input } = request.args;
      const repo = await resolveRepo(daemon, ref).catch(async (error: unknown) => {
        // An old jj is the more fundamental trouble, and registering would not help against it.
        await daemon.world.jj.checkVersions();
        throw error;
      });
      return repo.creation.plan(configured(daemon, repo, input), request.clientPid);
    }
    case "ApplyRepair": {
      const { repo, thread } = await resolveThreadRef(daemon, request.args);
      return repo.repairs.plan(thread.threadId, request.args.planId, request.args);
    }
    case "RegisterRepo":
      return planRegister(daemon, request.args.folder);
    case "UnregisterRepo":
      return planUnregister(daemon, request.args);
    case "DiagnoseRepair":
    case "GetThreadState":
    case "GetStatusBody":
    case "GetThreadAudit":
    case "GetAuditLog":
      return planRead(daemon, request);
  }
}

const READS = {
  DiagnoseRepair: "what is wrong with it, and the repairs there are",
  GetThreadState:
    "its status: heads, workspace, agent, cascade, children, attention, current operation",
  GetStatusBody: "jj's own status of its workspace: names of changed files and descriptions",
  GetThreadAudit: "every request about it, with who made it",
  GetAuditLog: "every request there was, with who made it",
} as const;

/** A read changes nothing; what is approved is that this caller sees this, once. */
async function planRead(
  daemon: Daemon,
  request: Extract<Approvable, { method: keyof typeof READS }>,
): Promise<Planned> {
  const of = await readOf(daemon, request);
  const textFor = (columns: number): string => {
    const plan = new PlanLayout(columns);
    plan.text(of.title);
    plan.gap();
    for (const [label, text] of of.rows) plan.row(label, text);
    plan.row("shows", READS[request.method]);
    plan.row("changes", "nothing");
    plan.row("good for", "reading it once");
    return plan.toString();
  };
  const args = storable(request.args, hashSecret);
  const digest = hashSecret(
    canonicalJson([request.method, of.identity, args, textFor(FULL_COLUMNS)]),
  );
  return { textFor, digest };
}

interface Read {
  title: string;
  rows: [label: string, text: string][];
  identity: string;
}

async function readOf(
  daemon: Daemon,
  request: Extract<Approvable, { method: keyof typeof READS }>,
): Promise<Read> {
  if (request.method === "GetAuditLog") {
    const { scope, repo: ref } = request.args;
    if (scope !== "repo") {
      const whose = scope === "user" ? "of what concerns no repository" : "of every repository";
      return { title: "Read the audit log", rows: [["log", whose]], identity: scope };
    }
    const repo = await resolveRepo(daemon, ref ?? {});
    const rows: Read["rows"] = [["repo", repo.row.repoRoot]];
    return { title: "Read the audit log", rows, identity: repo.repoId };
  }
  const { repo: ref, thread: named } = request.args;
  if (named === null) {
    const repo = await resolveRepo(daemon, ref);
    const rows: Read["rows"] = [["repo", repo.row.repoRoot]];
    return { title: "Look into every thread", rows, identity: repo.repoId };
  }
  const { repo, thread } = await resolveThreadRef(daemon, { repo: ref, thread: named });
  return {
    title: `Look into thread "${thread.name}"`,
    rows: [["repo", repo.row.repoRoot]],
    identity: thread.threadId,
  };
}

import type { Chapter } from "./obligation.ts";

const APPROVALS = "authority/approvals.test.ts";
const ENFORCER = "authority/enforcer.test.ts";
const REGISTRY = "authority/registry.test.ts";
const AUDIT = "authority/audit.test.ts";
const AGENT = "e2e/authority.test.ts";
const PERSON = "e2e/approvals.test.ts";
const RUN = "authority/approved-run.test.ts";

export const AUTHORITY: Chapter = {
  title: "AuthEnforcer, ApprovalBroker, audit",
  obligations: [
    {
      what: "thread-scoped rejection across siblings",
      by: {
        [ENFORCER]: ["nobody, registration, own thread, sibling, presenter, admin →"],
        [AGENT]: ["kk status of another thread"],
      },
    },
    {
      what: "operational rejection of Admin, and of the presenter",
      by: {
        [ENFORCER]: ["presenter and admin credentials → refused by every operational method"],
        [AGENT]: [
          "curl ListRepos with the admin's credential",
          "curl an ordinary method with the presenter's credential",
        ],
      },
    },
    {
      what: "broker enrolment and recovery",
      by: {
        [REGISTRY]: [
          "first use → enrolled, file 0600",
          "enrolment or recovery asked for by an agent",
        ],
      },
    },
    {
      what: "persisted begin, display, confirm and cancel of challenges",
      by: {
        [APPROVALS]: [
          "begun, confirmed, claimed, ended → one row each",
          "cancelled → confirms nothing any more",
        ],
        [REGISTRY]: ["plan → what, where, what changes, what is kept"],
      },
    },
    {
      what: "binding of nonce, channel, method, target, arguments and rendered plan",
      by: {
        [APPROVALS]: [
          "wrong nonce, another challenge's nonce → refused",
          "on another terminal",
          "another method",
          "another target",
          "a changed argument",
          "another caller",
        ],
        [REGISTRY]: ["confirmed on another terminal, by the caller's own credential, by an agent"],
      },
    },
    {
      what: "atomic capability issuance after confirmation",
      by: { [APPROVALS]: ["confirmed twice → one approval"] },
    },
    {
      what: "atomic claim with one durable operation id; two clients racing",
      by: {
        [APPROVALS]: [
          "two clients race for one approval, 100 rounds → one wins each time",
          "the transaction of the effect fails → nothing is spent",
        ],
      },
    },
    {
      what: "crash resume of only that plan; between claim and effect; after effect before consumption",
      by: {
        [APPROVALS]: ["crash between claim and effect, crash after effect before consumption"],
        [REGISTRY]: [
          "→ the next one finishes exactly that operation",
          "→ finished by the next one",
        ],
        [RUN]: ["→ goes on there, nothing twice, approval not free in between"],
      },
    },
    {
      what: "an outcome nobody can tell",
      by: { [RUN]: ["OutcomeUnknown, approval neither free nor consumed, not done again"] },
    },
    {
      what: "final consumption",
      by: { [APPROVALS]: ["approval consumed, in that transaction", "read: spent at once"] },
    },
    {
      what: "expiry and replay",
      by: {
        [APPROVALS]: [
          "the moment the time is over → expired",
          "not used in time → approval-expired",
          "in between → confirmed and claimed all the same, expired as long after",
          "replay after the operation has ended → approval-used",
        ],
      },
    },
    {
      what: "plan-digest drift: changed repository state",
      by: {
        [APPROVALS]: ["changed repository state: the plan made now has another digest"],
        [REGISTRY]: ["thread that is not closed → refused by name; changed after the plan"],
      },
    },
    {
      what: "non-interactive failure",
      by: {
        [REGISTRY]: ["asked for by an agent, on no terminal → plan, no challenge"],
        [AGENT]: ["kk new with y piped in", "kk new on a pty of its own"],
      },
    },
    {
      what: "audit of accepted, rejected, unidentified, bootstrap, registration, invalid-repo and ListRepos attempts: one row each, in its log, null identities explicit",
      by: {
        [AUDIT]: [
          "accepted → the repository's log",
          "rejected: another thread's state",
          "unidentified: no credential, an unknown one → null identities",
          "bootstrap: enrolling and recovering",
          "registration of a repository → the user's log",
          "ListRepos, an unknown repository, a thread of none → the user's log",
          "every method with an empty body, by every kind of caller → one row each",
          "never in either database",
        ],
        "authority/audit-load.test.ts": ["1,000 mixed requests at once"],
      },
    },
    {
      what: "a person's yes and no on a real terminal",
      by: {
        [PERSON]: [
          "yes → Active, and everything about it recorded once",
          "40 columns → plan and kk's lines are laid out for them",
          "daemon killed while the plan is read → the same yes still counts",
          "background job of an interactive shell → plan, one line, exit 4",
        ],
      },
    },
  ],
};

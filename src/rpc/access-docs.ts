/** Renders docs/access.md from the METHODS table, and the words docs/rpc.md uses for the same. */
import type { Access, ApprovalRule, Callers } from "../core/access.ts";
import { METHODS } from "./contract/methods.ts";

const INTRO = `<!-- Made by scripts/gen-access-docs.ts from src/rpc/contract/methods.ts; a test fails when it is out of date. -->

# Who may call what, and what is recorded of it

One row for every method of the daemon. [authority.md](authority.md) says what the words mean and what they are worth;
[rpc.md](rpc.md) has the inputs and outputs.

- **credential**: the kinds that are taken. "Its own" is the credential of the thread the request is about. No method
  takes more than is said here: a presenter's credential cannot list threads, and the admin's cannot create one.
- **approval**: when a person must have said yes to exactly this call first. A read spends it before it reads; anything else
  in the transaction in which its effect begins. \`RegisterRepo\` of a repository that is registered already changes
  nothing and needs none.
- **audit**: the log the attempt's one row is in, accepted or refused. \`repo\`: the log of the repository the request
  turned out to be about, and the user's where it turned out to be about none, or could not be found. \`user\`: always the
  user's.
- **recorded input**: the fields that are copied into the row. No other field is: no prompts, no tool calls, no environment.

Every row also has: a request id, the time, the method, the thread and the target as far as they were named, the kind and
id of the credential (or, for a caller nobody knows, a keyed fingerprint of what it sent in a credential's place), the
approval it came with, the outcome, and the code of a refusal.

| method | credential | approval | audit | recorded input |
| --- | --- | --- | --- | --- |
`;

const CALLERS: Record<Callers, string> = {
  anyone: "none",
  user: "`RegistrationScoped`, `ThreadScoped`",
  "own-thread": "`ThreadScoped`, its own",
  presenter: "`ApprovalPresenter`",
  bootstrap: "`RegistrationScoped`, `Admin`",
  admin: "`Admin`",
};

const APPROVALS: Record<ApprovalRule, string> = {
  never: "never",
  always: "always",
  sibling: "when a thread asks about another",
  "not-own": "unless a thread asks about itself",
};

/** Which credentials a method takes, as text. */
export function credentialText({ callers, threads, approval }: Access): string {
  // What an approval can allow a thread is not forbidden to it.
  const limited = callers === "user" && threads === "own" && approval === "never";
  return limited ? `${CALLERS.user}, its own` : CALLERS[callers];
}

/** When a method needs an approval, as text. */
export function approvalText({ approval }: Access): string {
  return APPROVALS[approval];
}

/** The whole page, ending in one newline. */
export function renderAccessDocs(): string {
  const rows = Object.entries(METHODS).map(([name, { access }]) => {
    const recorded = access.audit.map((field) => `\`${field}\``).join(", ");
    const cells = [
      `[${name}](rpc.md#${name.toLowerCase()})`,
      credentialText(access),
      approvalText(access),
      access.sink,
      recorded === "" ? "nothing" : recorded,
    ];
    return `| ${cells.join(" | ")} |\n`;
  });
  return INTRO + rows.join("");
}

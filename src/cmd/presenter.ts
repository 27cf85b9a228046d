/** `kk presenter recover`: when the credential that confirms plans is lost. The only place that reads the admin's. */
import { defineCommand } from "citty";
import { fail } from "../core/errors.ts";
import { statePaths } from "../core/paths.ts";
import { isYes, QUESTION, fitted } from "./approve.ts";
import { connect } from "./connect.ts";
import { clientWith, readSecret } from "./credentials.ts";
import { print, printJson } from "./out.ts";
import { endInterrupted, openTerminal } from "./terminal.ts";

const recover = defineCommand({
  meta: {
    name: "recover",
    description: "Make this kk the presenter anew when its credential is lost, after asking",
  },
  args: { json: { type: "boolean", description: "Print the enrolment as JSON" } },
  async run({ args }) {
    const { stateDir } = await connect();
    await agreed(stateDir);
    const client = clientWith(stateDir, adminSecret(stateDir));
    const enrolled = await client.call("RecoverApprovalPresenter", { clientPid: process.pid });
    if (args.json) return printJson(enrolled);
    print(`recovered: kk asks with a new credential, ${statePaths(stateDir).presenterCredential}`);
  },
});

export const presenterCommand = defineCommand({
  meta: { name: "presenter", description: "The terminal front end that confirms plans" },
  subCommands: { recover },
});

/** Throws KikiError of kind approval unless a person on this terminal said yes. */
async function agreed(dir: string): Promise<void> {
  const terminal = openTerminal();
  const text = explanation(dir);
  if (terminal === null) {
    throw fail(
      "approval",
      "approval-no-terminal",
      "recovering the presenter needs a person's yes, and there is no foreground terminal to ask on",
      "run the same command in the foreground of a terminal",
    );
  }
  try {
    terminal.write(`${fitted(text, terminal.columns)}\n`);
    const said = await terminal.ask(QUESTION);
    if (said.kind === "interrupted") await endInterrupted();
    if (said.kind === "line" && isYes(said.text)) return;
  } finally {
    terminal.close();
  }
  throw fail("approval", "approval-refused", "not approved: nothing was changed");
}

function explanation(dir: string): string[] {
  const { presenterCredential, adminCredential } = statePaths(dir);
  return [
    "Recover the presenter",
    "",
    "The presenter is what may confirm a plan after a person's yes: kk on your terminals. Its " +
      `credential is ${presenterCredential}.`,
    "The credential that was enrolled until now is revoked, wherever a copy of it is, and a new " +
      "one is written there. Questions that are open on other terminals have to be asked again. " +
      "Threads and repositories stay as they are.",
    `This uses the admin credential ${adminCredential}, which kk reads for this and nothing else.`,
  ];
}

function adminSecret(dir: string): string {
  const file = statePaths(dir).adminCredential;
  const secret = readSecret(file);
  if (secret !== null) return secret;
  throw fail(
    "failed",
    "credential-unreadable",
    `cannot read ${file}`,
    "kk daemon restart writes a new one",
  );
}

/** The demo's two agents as the scripted model plays them for the real Claude Code. */
import { join } from "node:path";
import type { ModelScripts } from "../../../fixtures/model-servers/claude.ts";
import { bash, edit, read, say, write, type Cues } from "../model.ts";

const PARSER_V1 =
  'export const version = "v1";\nexport const parse = (text: string) => text.split("+");\n';
const LEXER = "export const tokens = (text: string) => text.match(/\\d+|\\S/g) ?? [];\n";

/** Ids of the batches that must be blocked, one call of each kind: read-only, writing, shell. */
export const FIRST_BATCH = ["toolu_first_read", "toolu_first_write", "toolu_first_bash"] as const;
export const SECOND_BATCH = [
  "toolu_second_bash",
  "toolu_second_read",
  "toolu_second_write",
] as const;
/** Tool by call id, for the harness's wrapper around a denial. */
export const TOOL_OF: Readonly<Record<string, string>> = {
  toolu_first_read: "Read",
  toolu_first_write: "Write",
  toolu_first_bash: "Bash",
  toolu_second_bash: "Bash",
  toolu_second_read: "Read",
  toolu_second_write: "Write",
};
/** Files that exist only if a call ran that must not. */
export const TRACES = [
  "first-write.txt",
  "first-bash.txt",
  "second-write.txt",
  "second-bash.txt",
] as const;

/** Steps of the scripts by what has happened when the harness asks for them. */
export const PARENT_STEP = { written: 1, amended: 3, added: 5 } as const;
export const CHILD_STEP = {
  written: 1,
  afterFirst: 2,
  reread: 3,
  afterSecond: 4,
  done: 6,
} as const;

export function storyScripts(parent: string, child: string, cues: Cues): ModelScripts {
  const p = (name: string): string => join(parent, name);
  const c = (name: string): string => join(child, name);
  return {
    parser: [
      () => [
        say("I write the parser."),
        write(p("parser.ts"), PARSER_V1),
        bash("jj describe -m 'parser: split at plus'"),
      ],
      async () => {
        await cues.taken("amend");
        return [say("A better version."), read(p("parser.ts"))];
      },
      () => [edit(p("parser.ts"), '"v1"', '"v2"'), bash("jj status")],
      async () => {
        await cues.taken("add");
        return [say("Now a lexer, as a revision of its own."), bash("jj new -m 'lexer: tokens'")];
      },
      () => [write(p("lexer.ts"), LEXER), bash("jj status")],
      () => [say("Parser and lexer are done.")],
    ],
    tests: [
      () => [
        say("I test the parser."),
        write(c("parser.test.ts"), "// parses a sum\n"),
        bash("jj describe -m 'tests: parses a sum'"),
      ],
      async () => {
        await cues.taken("three tools");
        return [
          say("Three things at once."),
          read(c("parser.ts"), FIRST_BATCH[0]),
          write(c(TRACES[0]), "this must not exist\n", FIRST_BATCH[1]),
          bash(`touch ${c(TRACES[1])}`, FIRST_BATCH[2]),
        ];
      },
      () => [say("The parser moved under me. I read it again."), read(c("parser.ts"))],
      async () => {
        await cues.taken("go on");
        return [
          bash(`touch ${c(TRACES[3])}`, SECOND_BATCH[0]),
          read(c("parser.test.ts"), SECOND_BATCH[1]),
          write(c(TRACES[2]), "this must not exist\n", SECOND_BATCH[2]),
        ];
      },
      () => [say("There is a lexer now."), read(c("lexer.ts"))],
      () => [bash("echo all green")],
      () => [say("The tests are done.")],
    ],
    control: [() => [bash("echo control")], () => [say("Done.")]],
  };
}

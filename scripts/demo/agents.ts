/** The two scripted agents of the demo. They wait for signal files, so that the story has one order. */

import { bash, edit, read, say, touch, wait, write } from "../../tests/support/scenario.ts";

interface Signals {
  signal: (name: string) => string;
}

const PARSER_V1 =
  'export const version = "v1";\nexport const parse = (text: string) => text.split("+");\n';
const LEXER = "export const tokens = (text: string) => text.match(/\\d+|\\S/g) ?? [];\n";

/** Writes a parser, amends it when told to, adds a lexer in a new revision when told to. */
export function parentScenario({ signal }: Signals): unknown {
  return {
    responses: [
      [
        say("I write the parser."),
        write("p1", "parser.ts", PARSER_V1),
        bash("p2", "jj describe -m 'parser: split at plus'"),
      ],
      [
        touch(signal("parser-written")),
        wait(signal("amend")),
        say("A better version."),
        read("p3", "parser.ts"),
      ],
      [edit("p4", "parser.ts", '"v1"', '"v2"'), bash("p5", "jj status")],
      [
        wait(signal("add")),
        say("Now a lexer, as a revision of its own."),
        bash("p6", "jj new -m 'lexer: tokens'"),
      ],
      [write("p7", "lexer.ts", LEXER), bash("p8", "jj status")],
      [say("Parser and lexer are done.")],
    ],
  };
}

/** Writes a test; then dispatches three tools at once, is blocked, re-reads, goes on; the same after the lexer. */
export function childScenario({ signal }: Signals, log: string): unknown {
  const blocked = { last_result_contains: "did not run" };
  return {
    log,
    responses: [
      [
        say("I test the parser."),
        write("t1", "parser.test.ts", "// parses a sum\n"),
        bash("t2", "jj describe -m 'tests: parses a sum'"),
      ],
      [
        touch(signal("tests-written")),
        wait(signal("three-tools")),
        say("Three things at once."),
        read("three-1", "parser.ts"),
        read("three-2", "parser.test.ts"),
        bash("three-3", "echo running the tests"),
      ],
      {
        when: blocked,
        do: [[say("The parser moved under me. I read it again."), read("reread-1", "parser.ts")]],
      },
      [
        touch(signal("re-read")),
        wait(signal("go-on")),
        say("On with the work."),
        bash("more-1", "echo running the tests"),
      ],
      { when: blocked, do: [[say("There is a lexer now."), read("reread-2", "lexer.ts")]] },
      [bash("more-2", "echo all green")],
      [touch(signal("done")), say("The tests are done.")],
    ],
  };
}

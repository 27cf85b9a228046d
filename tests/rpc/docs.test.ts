/** docs/rpc.md says what the contract says, and its example is one that works. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { METHODS } from "../../src/rpc/contract/methods.ts";
import { approvalText, credentialText, renderAccessDocs } from "../../src/rpc/access-docs.ts";
import { renderRpcDocs } from "../../src/rpc/docs.ts";
import { hermeticEnv, removeTempDirs, tempDir } from "../support/temp.ts";
import { serveRpc, type Handlers } from "../../src/rpc/server.ts";

afterAll(removeTempDirs);

const FILE = join(import.meta.dir, "../../docs/rpc.md");

test("docs/rpc.md: the contract table → what the file says (else: bun scripts/gen-rpc-docs.ts)", () => {
  expect(readFileSync(FILE, "utf8")).toBe(renderRpcDocs());
});

test("docs/rpc.md: every method → a section with its credential", () => {
  const text = renderRpcDocs();
  for (const [name, spec] of Object.entries(METHODS)) {
    const access = `${credentialText(spec.access)} · approval: ${approvalText(spec.access)}`;
    expect(text).toContain(`### ${name}\n\n${spec.doc}\n\nCredential: ${access}`);
  }
});

test("docs/access.md: the contract table → what the file says (else: bun scripts/gen-access-docs.ts)", () => {
  const file = join(import.meta.dir, "../../docs/access.md");
  expect(readFileSync(file, "utf8")).toBe(renderAccessDocs());
});

test("docs/access.md: every method → one row, with every field the audit row copies", () => {
  const rows = renderAccessDocs()
    .split("\n")
    .filter((line) => line.startsWith("| ["));
  expect(rows).toHaveLength(Object.keys(METHODS).length);
  for (const [i, [name, { access }]] of Object.entries(METHODS).entries()) {
    expect(rows[i]).toStartWith(`| [${name}](rpc.md#`);
    for (const field of access.audit) expect(rows[i]).toContain(`\`${field}\``);
  }
});

/** Inputs that carry, or may carry, something secret or private: never in an audit row. */
const PRIVATE = ["secret", "nonce", "prompt", "env", "event", "token", "harnessArgs", "shell"];

test("contract: fields copied into audit rows → fields of the input, and none that may hold a secret", () => {
  for (const [name, { access, input }] of Object.entries(METHODS)) {
    const fields = fieldsOf(input);
    for (const field of access.audit)
      expect([name, field, fields.has(field)]).toEqual([name, field, true]);
    expect([name, access.audit.filter((field) => PRIVATE.includes(field))]).toEqual([name, []]);
  }
});

function fieldsOf(input: z.ZodType): Set<string> {
  interface Shape {
    properties?: Record<string, unknown>;
    anyOf?: Shape[];
    oneOf?: Shape[];
  }
  const schema = z.toJSONSchema(input, { io: "input", unrepresentable: "any" }) as Shape;
  const shapes = [schema, ...(schema.anyOf ?? []), ...(schema.oneOf ?? [])];
  return new Set(shapes.flatMap((shape) => Object.keys(shape.properties ?? {})));
}

test.skipIf(Bun.which("curl") === null)(
  "docs/rpc.md: its curl example → both calls are answered",
  async () => {
    const dir = tempDir("curl");
    const env = hermeticEnv(dir);
    const state = join(env["HOME"] ?? dir, ".config/kiki");
    mkdirSync(state, { recursive: true });
    writeFileSync(join(state, "registration-cred"), `${"a".repeat(64)}\n`);
    const headers: (string | null)[] = [];
    const calls: string[] = [];
    const handlers = Object.fromEntries(
      Object.keys(METHODS).map((name) => [
        name,
        () => {
          calls.push(name);
          return {
            threads: [],
            version: "1",
            build: "b",
            pid: 1,
            startedAt: "",
            stateDir: "",
            socket: "",
            repos: 0,
            watching: [],
          };
        },
      ]),
    ) as unknown as Handlers<string>;
    const server = serveRpc({
      unixPath: join(state, "kkd.sock"),
      handlers,
      attempt(_method, header) {
        headers.push(header);
        return {
          authorize: async (input: unknown) => ({ caller: "anybody", input }),
          record: async () => undefined,
        };
      },
      version: "1",
      log: { error: () => undefined },
    });
    try {
      const example = /```sh\n([\s\S]*?)```/.exec(readFileSync(FILE, "utf8"))?.[1] ?? "";
      const child = Bun.spawn(["/bin/sh", "-e", "-c", example], {
        env,
        cwd: dirname(state),
        stdout: "pipe",
        stderr: "pipe",
      });
      const [out, err, code] = await Promise.all([
        child.stdout.text(),
        child.stderr.text(),
        child.exited,
      ]);
      expect([code, err]).toEqual([0, ""]);
      expect(out).toContain('{"threads":[]}');
      expect(calls).toEqual(["DaemonStatus", "RepoThreadSummaries"]);
      expect(headers).toEqual([null, `Kiki ${"a".repeat(64)}`]);
    } finally {
      await server.stop(0);
    }
  },
);

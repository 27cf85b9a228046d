/** docs/rpc.md says what the contract says, and its example is one that works. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { METHODS } from "../../src/rpc/contract/methods.ts";
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
    expect(text).toContain(`### ${name}\n\n${spec.doc}\n\nCredential: \`${spec.capability}\``);
  }
});

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
      authenticate(header) {
        headers.push(header);
        return "anybody";
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

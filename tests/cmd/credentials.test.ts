/** Which credential a command speaks with, and what becomes of one that is replaced while it is in use. */
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeEach, expect, test } from "bun:test";
import { clientOf } from "../../src/cmd/credentials.ts";
import { fail } from "../../src/core/errors.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { toyServer } from "../support/toy-server.ts";

const REGISTRATION = "aa".repeat(32);
const OLD = "bb".repeat(32);
const NEW = "cc".repeat(32);

/** Credentials as they arrived, and those that are refused. */
let seen: string[] = [];
let revoked: string[] = [];
let during: () => void = () => {};
const toy = toyServer({ ListRepos: () => ({ repos: [] }) }, (header) => {
  const secret = header?.replace("Kiki ", "") ?? "";
  seen.push(secret);
  during();
  return revoked.includes(secret) ? fail("approval", "credential-unknown", "unknown") : secret;
});
const dir = tempDir("credentials");
const file = join(dir, "repos/r/credentials/t");
mkdirSync(join(dir, "repos/r/credentials"), { recursive: true });
symlinkSync(toy.socket, join(dir, "kkd.sock"));

beforeEach(() => {
  [seen, revoked, during] = [[], [], () => {}];
  writeFileSync(join(dir, "registration-cred"), REGISTRATION);
  writeFileSync(file, OLD);
});
afterAll(async () => {
  await toy.server.stop(0);
  removeTempDirs();
});

const call = () => clientOf(dir, "r", "t").call("ListRepos", {});

test("thread with a credential → speaks for itself; without one → registration", async () => {
  await call();
  rmSync(file);
  await call();
  expect(seen).toEqual([OLD, REGISTRATION]);
});

test("credential replaced between reading and asking → asked once more with the new one", async () => {
  revoked = [OLD];
  during = () => writeFileSync(file, NEW);
  await call();
  expect(seen).toEqual([OLD, NEW]);
});

test("credential revoked, its file not gone yet → registration", async () => {
  revoked = [OLD];
  await call();
  expect(seen).toEqual([OLD, REGISTRATION]);
});

test("everything revoked → the refusal, after one more try", async () => {
  revoked = [OLD, REGISTRATION];
  expect(await call().catch((error: unknown) => error)).toMatchObject({
    code: "credential-unknown",
  });
  expect(seen).toEqual([OLD, REGISTRATION]);
});

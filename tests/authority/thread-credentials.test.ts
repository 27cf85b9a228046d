/** A thread's credential after one of its incarnations has ended, and after a death in between. */
import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import { hashSecret } from "../../src/authority/identify.ts";
import {
  mendThreadCredentials,
  rotateThreadCredential,
  type ThreadCredentialDeps,
} from "../../src/authority/thread-credentials.ts";
import { threadPaths } from "../../src/core/paths.ts";
import { threadCredential, threadOfCredential } from "../../src/store/credentials.ts";
import { liveSession } from "../../src/store/sessions.ts";
import { inputFor, REPO_ID, Rig, STATE } from "../lifecycle/rig.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

const folder = tempDir("thread-credentials");
let rig: Rig;
beforeEach(() => {
  rig = new Rig(folder);
});
afterEach(() => rig.close());
afterAll(removeTempDirs);

function deps(): ThreadCredentialDeps {
  return {
    stateDir: STATE,
    repoId: REPO_ID,
    db: rig.db,
    ids: rig.ids,
    now: () => rig.clock.now(),
    files: {
      ensureDir: (path) => void rig.files.ensureDir(path),
      writeDurable: (path, bytes, mode) => void rig.files.writeDurable(path, bytes, mode),
      readText: (path) => rig.files.get(path) ?? null,
    },
  };
}

const file = (threadId: string): string => threadPaths(STATE, REPO_ID, threadId).credential;
const secretOf = (threadId: string): string => rig.files.get(file(threadId))!.trim();
const owner = (secret: string): string | undefined =>
  threadOfCredential(rig.db, hashSecret(secret))?.threadId;

async function ended(): Promise<string> {
  const { threadId } = await rig.made(inputFor("parser"));
  rig.clock.advance(1_000);
  rig.creation.harnessExited(liveSession(rig.db, threadId)!.incarnation, 0, null);
  return threadId;
}

test("rotation → the old secret is nobody's, the new one the thread's, 0600, one live row", async () => {
  const threadId = await ended();
  const old = secretOf(threadId);
  rotateThreadCredential(deps(), threadId);
  expect(secretOf(threadId)).not.toBe(old);
  expect([owner(old), owner(secretOf(threadId))]).toEqual([undefined, threadId]);
  expect(rig.files.modeOf(file(threadId))).toBe(0o600);
});

test("boot after a death between the incarnation's end and the rotation → rotated, once", async () => {
  const threadId = await ended();
  const old = secretOf(threadId);
  rig.clock.advance(1_000);
  expect(mendThreadCredentials(deps())).toBe(1);
  expect(owner(old)).toBeUndefined();
  const { credentialId } = threadCredential(rig.db, threadId)!;
  expect(mendThreadCredentials(deps())).toBe(0);
  expect(threadCredential(rig.db, threadId)!.credentialId).toBe(credentialId);
});

test("boot after a death between file and row, or with the file lost → they agree again", async () => {
  const { threadId } = await rig.made(inputFor("parser"));
  expect(mendThreadCredentials(deps())).toBe(0);
  await rig.files.writeDurable(file(threadId), `${"0".repeat(64)}\n`, 0o600);
  expect(mendThreadCredentials(deps())).toBe(1);
  expect(owner(secretOf(threadId))).toBe(threadId);
  await rig.files.removeDurable(file(threadId));
  expect(mendThreadCredentials(deps())).toBe(1);
  expect(owner(secretOf(threadId))).toBe(threadId);
});

test("thread that is being made → left to its creation", async () => {
  rig.agent = "silent";
  const { threadId } = await rig.create(inputFor("parser"));
  await rig.until(() => threadCredential(rig.db, threadId) !== null, "the credential");
  const secret = secretOf(threadId);
  rotateThreadCredential(deps(), threadId);
  expect(secretOf(threadId)).toBe(secret);
});

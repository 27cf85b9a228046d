/** A stale workspace with every kind of edit that nobody has recorded: on real jj, with and without git beside it. */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  existsSync,
  lstatSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { removeTempDirs } from "../support/temp.ts";
import { thorough } from "../support/thorough.ts";
import { makePair } from "./pair.ts";
import { makeRig, type Rig } from "./rig.ts";

setDefaultTimeout(120_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

const RAW = Buffer.from([0x72, 0xff, 0xfe]);

/** Everything that the bundle holds, by its path in it. */
function bundled(bundle: string): Record<string, string> {
  const glob = new Bun.Glob("files/**");
  const found: Record<string, string> = {};
  for (const path of glob.scanSync({ cwd: bundle, dot: true, onlyFiles: false })) {
    const at = join(bundle, path);
    const stat = lstatSync(at);
    if (stat.isSymbolicLink()) found[path.slice(6)] = `-> ${readlinkSync(at)}`;
    else if (stat.isFile())
      found[path.slice(6)] = `${(stat.mode & 0o100) === 0 ? "" : "x "}${readFileSync(at, "utf8")}`;
  }
  return found;
}

describe.each([{ colocated: false }, { colocated: true }])("colocated $colocated", (kind) => {
  // The default suite has one of the two beside git, and one without it.
  const [all, rule] = kind.colocated ? [test, thorough] : [thorough, test];

  all(
    "modified, new, deleted, renamed, executable, symlink, tracked and newly ignored, a name that is not UTF-8: all at once → bundled before jj's first command, every byte in the tree afterwards",
    async () => {
      /** What the bundle holds when a command of kiki's first touches the workspace. */
      let before: Record<string, string> | null = null;
      const look = (): void => {
        const bundle = rig.intents(child)[0]!.recoveryBundle;
        before ??= bundle === null ? {} : bundled(bundle);
      };
      const rig: Rig = await makeRig({
        ...kind,
        wrapJj: (jj) => ({
          ...jj,
          updateStale(path, token) {
            look();
            return jj.updateStale(path, token);
          },
          snapshot(path, token) {
            look();
            return jj.snapshot(path, token);
          },
        }),
      });
      rigs.push(rig);
      const parent = await rig.thread("parser");
      for (const name of ["modified", "deleted", "renamed", "tool.sh", "plain", "quiet.txt"])
        rig.repo.write(name, `${name}\n1\n2\n3\n`, parent.path);
      rig.repo.symlink("modified", "link", parent.path);
      rig.repo.write("parser.txt", "one\n", parent.path);
      await rig.repo.jj(["status"], parent.path);
      const child = await rig.thread("tests", parent);
      await rig.cascade.refreshToFrontier();

      const c = child.path;
      rig.repo.write("modified", "modified\n1\n2\nthree\n", c);
      rig.repo.write("new/deep.txt", "new\n", c);
      rig.repo.remove("deleted", c);
      rig.repo.write("moved", rig.repo.read("renamed", c), c);
      rig.repo.remove("renamed", c);
      rig.repo.chmod("tool.sh", 0o755, c);
      rig.repo.remove("link", c);
      rig.repo.symlink("plain", "link", c);
      // Tracked, and ignored from now on.
      rig.repo.write(".gitignore", `${rig.repo.read(".gitignore", c)}quiet.txt\n`, c);
      rig.repo.write("quiet.txt", "still tracked\n", c);
      rig.repo.write("out.log", "ignored all the time\n", c);
      writeFileSync(Buffer.concat([Buffer.from(`${c}/`), RAW]), "raw\n");
      const ignore = rig.repo.read(".gitignore", c);

      rig.repo.write("parser.txt", "two\n", parent.path);
      await rig.repo.jj(["status"], parent.path);
      await rig.cascade.refreshToFrontier();
      const [answer] = await rig.agent(child).batch();
      const intent = rig.intents(child)[0]!;
      expect({
        state: intent.state,
        reason: intent.reason,
        attention: rig.attention(child),
      }).toMatchObject({ state: "Delivered", attention: [] });
      expect(answer!.text).toBe(intent.payload);

      const edits = {
        modified: "modified\n1\n2\nthree\n",
        "new/deep.txt": "new\n",
        moved: "renamed\n1\n2\n3\n",
        "tool.sh": "x tool.sh\n1\n2\n3\n",
        link: "-> plain",
        ".gitignore": ignore,
        "quiet.txt": "still tracked\n",
      };
      expect(before).toMatchObject(edits);
      expect(
        readFileSync(`${intent.recoveryBundle}/files-raw/${RAW.toString("hex")}`, "utf8"),
      ).toBe("raw\n");
      // The tree: the parent's change and every edit; what is ignored was not touched.
      expect(rig.file(child, "parser.txt")).toBe("two\n");
      expect(rig.file(child, "modified")).toBe(edits.modified);
      expect(rig.file(child, "new/deep.txt")).toBe("new\n");
      expect(rig.file(child, "moved")).toBe("renamed\n1\n2\n3\n");
      for (const gone of ["deleted", "renamed"]) expect(existsSync(join(c, gone))).toBe(false);
      expect(statSync(join(c, "tool.sh")).mode & 0o111).toBe(0o111);
      expect(readlinkSync(join(c, "link"))).toBe("plain");
      expect(rig.file(child, ".gitignore")).toBe(ignore);
      expect(rig.file(child, "quiet.txt")).toBe("still tracked\n");
      expect(rig.file(child, "out.log")).toBe("ignored all the time\n");
      expect(readFileSync(Buffer.concat([Buffer.from(`${c}/`), RAW]), "utf8")).toBe("raw\n");
      expect(await rig.repo.commit("divergent()")).toBe("");
      const status = await rig.repo.jj(["status"], c);
      for (const line of [
        "M modified",
        "A new/deep.txt",
        "D deleted",
        "M tool.sh",
        "M link",
        "M quiet.txt",
      ])
        expect(status).toContain(line);
      expect(status).not.toContain("out.log");
    },
  );

  rule(
    "a rule that is not recorded yet ignores a new file: jj's own update lays it bare → paused for a person, loud; rule in the bundle, the file's bytes on disk, not one is lost",
    async () => {
      const { rig, parent, child } = await makePair(kind);
      rigs.push(rig);
      const rules = `${rig.repo.read(".gitignore", child.path)}secret.txt\n`;
      rig.repo.write(".gitignore", rules, child.path);
      rig.repo.write("secret.txt", "ignored\n", child.path);
      rig.repo.write("own.txt", "own\n", child.path);
      rig.repo.write("parser.txt", "two\n", parent.path);
      await rig.repo.jj(["status"], parent.path);
      await rig.cascade.refreshToFrontier();
      expect((await rig.agent(child).batch())[0]!.text).toContain("waits for a person");
      const intent = rig.intents(child)[0]!;
      expect(intent).toMatchObject({ state: "RecoveryRequired", recovering: false });
      expect(rig.attention(child)).toHaveLength(1);
      expect(bundled(intent.recoveryBundle!)).toMatchObject({
        ".gitignore": rules,
        "own.txt": "own\n",
      });
      expect(rig.file(child, "secret.txt")).toBe("ignored\n");
    },
  );
});

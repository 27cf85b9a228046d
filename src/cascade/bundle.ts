/**
 * Recovery bundles: byte copies of what could be lost, durable before anything else happens. One folder per intent,
 * and in it one bundle for each state of the files that was ever met: none is overwritten by a later one.
 */
import { recoveryBundle } from "../core/paths.ts";
import type { JjRepo, LooseFile, WorkspaceProbe } from "../ports/jj.ts";
import type { CascadeThread } from "../store/edges.ts";
import type { CascadeDeps } from "./deps.ts";

export interface BundleEntry {
  path: string;
  /**
   * Letter of the probe; `?` for a file of an `Unknown` workspace. Of what a command of kiki's left that was ended in the
   * middle: `~` for what is half-written, `=` for a whole file of the new commit, which is not copied.
   */
  change: string;
  /** null: the path is gone from disk (a deletion), or is no file. */
  sha256: string | null;
  /** Hex of a path that is no text; its bytes are in `files-raw/<hex>`. */
  raw?: string;
}

interface Inventory {
  fingerprint: string;
  /** Folder with the copies, relative to the intent's. */
  files: string;
  entries: BundleEntry[];
}

export interface Bundle {
  /** The intent's folder: the bundle path of the row. */
  folder: string;
  number: number;
  /** Absolute folder of the copies. */
  files: string;
  entries: BundleEntry[];
}

export function bundleFolder(
  deps: Pick<CascadeDeps, "stateDir" | "repoId">,
  intentId: string,
): string {
  return recoveryBundle(deps.stateDir, deps.repoId, intentId);
}

/** The bundle of this number, or null. */
export function readBundle(
  deps: Pick<CascadeDeps, "files">,
  folder: string,
  number: number,
): Bundle | null {
  const text = deps.files.readText(`${folder}/${inventoryName(number)}`);
  if (text === null) return null;
  const inventory = JSON.parse(text) as Inventory;
  return { folder, number, files: `${folder}/${inventory.files}`, entries: inventory.entries };
}

/**
 * Every changed or untracked path that is not ignored and every colliding one; of an `Unknown` workspace every path
 * that is not ignored. The inventory is written last. The same probe a second time is the same bundle, except for an
 * `Unknown` one, whose fingerprint says nothing of the files.
 */
export async function saveBundle(
  deps: Pick<CascadeDeps, "files" | "clock">,
  input: {
    folder: string;
    jj: Pick<JjRepo, "looseFiles">;
    child: CascadeThread;
    probe: WorkspaceProbe;
    evidence: unknown;
    /** Paths that no agent and no person has written. */
    ours: ReadonlyMap<string, "half" | "whole">;
  },
): Promise<Bundle> {
  const { folder, probe, child } = input;
  const known = newestBundle(deps, folder);
  if (known !== null && known.fingerprint === probe.fingerprint && probe.state !== "Unknown")
    return readBundle(deps, folder, known.number)!;
  const number = (known?.number ?? 0) + 1;
  const files = number === 1 ? "files" : `files-${number}`;
  const loose = await input.jj.looseFiles(child.workspacePath);
  deps.files.ensureDir(folder, 0o700);
  const inventory: Inventory & Record<string, unknown> = {
    thread: child.threadId,
    workspace: child.workspacePath,
    probe: probe.state,
    reason: probe.reason,
    fingerprint: probe.fingerprint,
    checkoutOp: probe.checkoutOp,
    recordedCommit: probe.recordedCommit,
    evidence: input.evidence,
    files,
    entries: [
      ...changedEntries(deps, { ...input, files: `${folder}/${files}` }),
      ...looseEntries(deps, { ...input, files: `${folder}/${files}`, loose }),
    ],
  };
  const text = `${JSON.stringify(inventory, null, 1)}\n`;
  deps.files.writeDurable(`${folder}/${inventoryName(number)}`, text, 0o600);
  return readBundle(deps, folder, number)!;
}

/** Letters of paths, as in `WorkspaceProbe.changed`; `H` and `W` describe git's and jj's state, not a file. */
const FILE_LETTERS = new Set(["M", "A", "D", "T", "C"]);

function changedEntries(
  deps: Pick<CascadeDeps, "files">,
  at: {
    child: CascadeThread;
    probe: WorkspaceProbe;
    files: string;
    ours: ReadonlyMap<string, "half" | "whole">;
  },
): BundleEntry[] {
  return at.probe.changed
    .filter((line) => FILE_LETTERS.has(line.slice(0, 1)))
    .map((line) => {
      const path = line.slice(2);
      const from = `${at.child.workspacePath}/${path}`;
      // Gone: what may lie there now lies behind a symlink that has taken a folder's place.
      if (line.startsWith("D ") && !at.ours.has(path)) return { path, change: "D", sha256: null };
      const ours = at.ours.get(path);
      if (ours === "whole") return { path, change: "=", sha256: deps.files.sha256(from) };
      return {
        path,
        change: ours === "half" ? "~" : line.slice(0, 1),
        sha256: deps.files.copyInto(from, `${at.files}/${path}`),
      };
    });
}

/** What jj would not record: names that are no text and files that are too big; of an `Unknown` workspace all. */
function looseEntries(
  deps: Pick<CascadeDeps, "files">,
  at: { child: CascadeThread; probe: WorkspaceProbe; files: string; loose: readonly LooseFile[] },
): BundleEntry[] {
  const root = at.child.workspacePath;
  const changed = new Set(at.probe.changed.map((line) => line.slice(2)));
  const entries: BundleEntry[] = [];
  for (const { path: bytes, tracked } of at.loose) {
    const path = textOf(bytes);
    if (path === null) {
      const raw = Buffer.from(bytes).toString("hex");
      const from = Buffer.concat([Buffer.from(`${root}/`), bytes]);
      const sha256 = deps.files.copyInto(from, `${at.files}-raw/${raw}`);
      entries.push({ path: Buffer.from(bytes).toString("latin1"), change: "?", sha256, raw });
      continue;
    }
    const wanted = at.probe.state === "Unknown" || (!tracked && !changed.has(path));
    if (!wanted || path.endsWith("/")) continue;
    const sha256 = deps.files.copyInto(`${root}/${path}`, `${at.files}/${path}`);
    entries.push({ path, change: "?", sha256 });
  }
  return entries;
}

function textOf(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

function newestBundle(
  deps: Pick<CascadeDeps, "files">,
  folder: string,
): { number: number; fingerprint: string } | null {
  for (let number = deps.files.listDir(folder).length; number > 0; number -= 1) {
    const text = deps.files.readText(`${folder}/${inventoryName(number)}`);
    if (text === null) continue;
    return { number, fingerprint: (JSON.parse(text) as Inventory).fingerprint };
  }
  return null;
}

function inventoryName(number: number): string {
  return number === 1 ? "inventory.json" : `inventory-${number}.json`;
}

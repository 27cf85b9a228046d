/** Recovery bundles: byte copies of what could be lost, durable before anything else happens. */
import type { WorkspaceProbe } from "../ports/jj.ts";
import type { CascadeThread } from "../store/edges.ts";
import type { CascadeDeps } from "./deps.ts";

export interface BundleEntry {
  path: string;
  change: string;
  /** null: the path is gone from disk (a deletion). */
  sha256: string | null;
}

/** Writes `<folder>/files/<path>` and `<folder>/inventory.json`; idempotent for the same probe. */
export function saveBundle(
  deps: Pick<CascadeDeps, "files" | "clock">,
  input: { folder: string; child: CascadeThread; probe: WorkspaceProbe; plan: unknown },
): BundleEntry[] {
  deps.files.ensureDir(input.folder, 0o700);
  const entries: BundleEntry[] = [];
  for (const line of input.probe.changed) {
    const change = line.slice(0, 1);
    const path = line.slice(2);
    // "H HEAD" and "W working copy" describe git or jj state, not a file.
    if (change === "H" || change === "W") continue;
    const sha256 = deps.files.copyInto(
      `${input.child.workspacePath}/${path}`,
      `${input.folder}/files/${path}`,
    );
    entries.push({ path, change, sha256 });
  }
  const inventory = {
    thread: input.child.threadId,
    workspace: input.child.workspacePath,
    probe: input.probe.state,
    fingerprint: input.probe.fingerprint,
    checkoutOp: input.probe.checkoutOp,
    recordedCommit: input.probe.recordedCommit,
    plan: input.plan,
    entries,
  };
  deps.files.writeDurable(
    `${input.folder}/inventory.json`,
    `${JSON.stringify(inventory, null, 1)}\n`,
    0o600,
  );
  return entries;
}

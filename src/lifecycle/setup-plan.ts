/** What a new workspace will be set up with, found out when the plan is made and shown in it. */
import { canonicalJson } from "../core/canonical.ts";
import type { SetupRecipe } from "../core/setup.ts";
import { lastApprovedRecipe } from "../store/lifecycle-ops.ts";
import { settingsOf, sha256Hex, SHARED_LAYER, type CreationDeps } from "./creation-deps.ts";

export interface SetupPlan {
  recipe: SetupRecipe;
  missing: string[];
  problems: string[];
  /** For a recipe that comes with the repository: how it stands to the one a person last agreed to. */
  shared: "new" | "changed" | "unchanged" | null;
}

/** null when nothing is configured. Reads the main workspace, changes nothing. */
export async function planSetup(
  deps: Pick<CreationDeps, "settings" | "recipes" | "jj" | "db">,
): Promise<SetupPlan | null> {
  const { copy, run, timeoutS, source } = settingsOf(deps).setup;
  if (copy.length === 0 && run.trim() === "") return null;
  const { files, missing, problems } = await deps.recipes.match(deps.jj.location.repoRoot, copy);
  const sha256 = sha256Hex(canonicalJson([copy, run]));
  return {
    recipe: { files, run, timeoutS, source, sha256 },
    missing,
    problems,
    shared: source === SHARED_LAYER ? comparedWithLast(deps, sha256) : null,
  };
}

/** Every approved creation keeps its recipe in the journal; the newest of the same layer is what was last agreed to. */
function comparedWithLast(
  deps: Pick<CreationDeps, "db">,
  sha256: string,
): "new" | "changed" | "unchanged" {
  const last = lastApprovedRecipe(deps.db, SHARED_LAYER);
  if (last === null) return "new";
  return last === sha256 ? "unchanged" : "changed";
}

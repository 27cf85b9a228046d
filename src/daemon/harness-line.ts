/** One line of `kk doctor` for each harness a person has: version, what was proved of it, and why no more. */
import {
  lacking,
  reasonsFor,
  standingOf,
  standingReasons,
  STANDING_WORDS,
  type Standing,
} from "../core/proofs.ts";
import { KikiError } from "../core/errors.ts";
import type { Known } from "../lifecycle/proving.ts";
import type { Harness } from "../ports/harness.ts";
import type { DoctorLine, FoundHarness } from "../rpc/contract/types.ts";
import type { Daemon } from "./runtime.ts";
import { isoTime } from "./views.ts";

const OTHER_VERSION = "use a version kiki was released with, or kk new once more after an upgrade";

/** Reads what is recorded; starts no program. */
export function harnessLine(
  daemon: Pick<Daemon, "world" | "proving">,
  { name, executable, version }: FoundHarness,
): DoctorLine {
  if (version === null)
    return {
      name,
      ok: false,
      detail: `${executable} does not say its version`,
      fix: "install it again",
    };
  let harness: Harness;
  try {
    harness = daemon.world.harness(name);
  } catch (error) {
    if (!(error instanceof KikiError)) throw error;
    return { name, ok: true, detail: `${version} (${executable}): ${error.message}`, fix: null };
  }
  const known = daemon.proving.known(harness, version, executable);
  const at = `${version} (${executable})`;
  if (known === null) {
    const detail = `${at}: kiki was not released with this version; the first kk new looks at what it can do`;
    return { name, ok: true, detail, fix: null };
  }
  const standing = standingOf(known.capabilities);
  const ok = standing !== "refused";
  return { name, ok, detail: `${at}: ${inWords(known, standing)}`, fix: ok ? null : OTHER_VERSION };
}

function inWords(known: Known, standing: Standing): string {
  const by = known.provedAt === null ? "by the release gate" : `here, ${isoTime(known.provedAt)}`;
  const said =
    standing === "full" ? `proved ${by}` : `${STANDING_WORDS[standing]} — looked at ${by}`;
  const without = lacking(known.capabilities);
  const reasons = new Set([...standingReasons(known.proofs), ...reasonsFor(known.proofs, without)]);
  const missing = without.length === 0 ? "" : `; not proved: ${without.join(", ")}`;
  const why = reasons.size === 0 ? "" : ` (${[...reasons].join("; ")})`;
  return `${said}${missing}${why}`;
}

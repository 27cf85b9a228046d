/** The jj port on the fake and on the real jj: the probe, snapshots, update-stale, git behind jj's back, recovery. */
import { FILES } from "./jj-scenarios-files.ts";
import { GIT } from "./jj-scenarios-git.ts";
import { RECOVERY } from "./jj-scenarios-recovery.ts";
import { jjContract } from "./jj-suite.ts";

jjContract({
  "jj contract: files": FILES,
  "jj contract: git": GIT,
  "jj contract: recovery": RECOVERY,
});

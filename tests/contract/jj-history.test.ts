/** The jj port on the fake and on the real jj: operations, revisions, workspaces, bookmarks, staged rebases. */
import { HISTORY } from "./jj-scenarios-history.ts";
import { THREADS } from "./jj-scenarios-threads.ts";
import { REVISIONS } from "./jj-scenarios-revisions.ts";
import { jjContract } from "./jj-suite.ts";

jjContract({
  "jj contract: operations": HISTORY,
  "jj contract: revisions": REVISIONS,
  "jj contract: threads": THREADS,
});

/**
 * One executable, three programs: the name it is called by decides. `process.argv0` is the invoked name, unresolved
 * (Bun 1.4.5); `process.execPath` would be the link's target.
 *
 * The hook is imported statically because every `import()` costs about 0.7 ms and it runs before each tool call; the
 * others are loaded on demand so that the hook never parses them.
 */
import { runHook } from "./cmd/hook.ts";

const name = process.argv0.slice(process.argv0.lastIndexOf("/") + 1);
if (name === "kk-hook" || process.env["KIKI_AS"] === "kk-hook") runHook();
else if (name === "kkd" || process.env["KIKI_AS"] === "kkd")
  void import("./cmd/kkd.ts").then((m) => m.main());
else void import("./cmd/kk.ts").then((m) => m.main(process.argv.slice(2)));

/** `kkd`: the daemon. Started by `kk` when needed; by hand or by a service manager it stays in the foreground. */
import { errorLine } from "../core/errors.ts";
import { runDaemon } from "../daemon/serve.ts";
import { BUILD, VERSION } from "../version.ts";

export async function main(): Promise<void> {
  if (process.argv.includes("--version")) {
    console.log(`kiki ${VERSION} (${BUILD})`);
    return;
  }
  try {
    process.exit(await runDaemon(process.env));
  } catch (error) {
    console.error(`kkd: ${errorLine(error)}`);
    process.exit(1);
  }
}

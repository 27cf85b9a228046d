/** The intermediate of `startDaemon`, for another program than kkd: `start-standin.ts <argv as JSON> --state-dir D`. */
import { launchDaemon } from "../../src/cmd/start-daemon.ts";

const [command = "[]", , stateDir = ""] = process.argv.slice(2);
console.log(String(launchDaemon(stateDir, JSON.parse(command) as string[])));

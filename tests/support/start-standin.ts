/** The intermediate of `startDaemon`, for another program than kkd: `start-standin.ts <argv as JSON> --state-dir D`. */
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { launchDaemon } from "../../src/cmd/start-daemon.ts";

const [command = "[]", , stateDir = ""] = process.argv.slice(2);
const pid = launchDaemon(stateDir, JSON.parse(command) as string[]);
// For the test that has to end them all: one that lost the race may win the next one, when the winner is killed.
appendFileSync(join(stateDir, "started"), `${pid}\n`);
console.log(String(pid));

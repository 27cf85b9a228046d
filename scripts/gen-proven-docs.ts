/** Makes the last section of docs/testing.md anew from tests/obligations: bun scripts/gen-proven-docs.ts */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { withProven } from "../tests/obligations/render.ts";
import { ROOT } from "./packages.ts";

const file = join(ROOT, "docs", "testing.md");
writeFileSync(file, withProven(readFileSync(file, "utf8")));
console.log(file);

/** Writes docs/config.md from the table of keys: bun scripts/gen-config-docs.ts */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { renderConfigDocs } from "../src/core/config/docs.ts";
import { ROOT } from "./packages.ts";

const file = join(ROOT, "docs", "config.md");
writeFileSync(file, renderConfigDocs());
console.log(file);

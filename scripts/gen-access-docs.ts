/** Writes docs/access.md from the contract table: bun scripts/gen-access-docs.ts */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { renderAccessDocs } from "../src/rpc/access-docs.ts";
import { ROOT } from "./packages.ts";

const file = join(ROOT, "docs", "access.md");
writeFileSync(file, renderAccessDocs());
console.log(file);

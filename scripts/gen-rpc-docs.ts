/** Writes docs/rpc.md from the contract table: bun scripts/gen-rpc-docs.ts */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { renderRpcDocs } from "../src/rpc/docs.ts";
import { ROOT } from "./packages.ts";

const file = join(ROOT, "docs", "rpc.md");
writeFileSync(file, renderRpcDocs());
console.log(file);

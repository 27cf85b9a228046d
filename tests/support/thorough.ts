/** Tests that the default suite leaves to `KIKI_TEST_THOROUGH=1 npm test`: more of what a neighbour of theirs shows as well. */
import { test } from "bun:test";

export const isThorough = process.env["KIKI_TEST_THOROUGH"] !== undefined;
export const thorough = test.skipIf(!isThorough);

/** The crash matrix of close and destroy. */
import { testPlansOf } from "./plans.ts";

testPlansOf(import.meta.file);

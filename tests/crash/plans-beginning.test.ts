/** The crash matrix of every saga that leaves a thread there. */
import { testPlansOf } from "./plans.ts";

testPlansOf(import.meta.file);

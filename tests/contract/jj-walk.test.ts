/** The jj port on the fake and on the real jj: what nobody thought of writing down as a scenario. */
import { walkOf } from "./jj-scenarios-walk.ts";
import { jjContract } from "./jj-suite.ts";

// A seed in which no two revisions are equal in everything: made in one second, jj gives such two the same id and the
// fake does not, which looks like a difference and is none.
const given = process.env["KIKI_TEST_SEED"];
const seeds = given === undefined ? [4] : given.split(",").map(Number);

jjContract({ "jj contract: walk": seeds.map(walkOf) });

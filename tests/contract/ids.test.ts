/** Ids: counted ones, and the system's random ones. */
import { expect } from "bun:test";
import { realIds } from "../../src/backends/ids.ts";
import type { Ids } from "../../src/ports/ids.ts";
import { FakeIds } from "../fakes/ids.ts";
import { contract } from "../support/contract.ts";

contract<Ids>(
  "ids",
  [
    { name: "fake", make: () => new FakeIds() },
    { name: "real ids", make: () => realIds },
  ],
  [
    {
      name: "uuid → version 4, lower case, never twice",
      run(ids) {
        const made = Array.from({ length: 500 }, () => ids.uuid());
        for (const id of made) {
          expect(id).toMatch(
            /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
          );
        }
        expect(new Set(made).size).toBe(500);
      },
    },
    {
      name: "secret → as many bytes as asked for, in lower-case hex, never twice",
      run(ids) {
        for (const bytes of [4, 16, 32]) expect(ids.secret(bytes)).toMatch(hexOf(bytes));
        const made = Array.from({ length: 500 }, () => ids.secret(32));
        expect(new Set(made).size).toBe(500);
      },
    },
    {
      name: "the same test again → the same ids; a secret too short to be one → thrown",
      only: ["fake"],
      run(ids) {
        const again = new FakeIds();
        expect([ids.uuid(), ids.secret(8)]).toEqual([again.uuid(), again.secret(8)]);
        expect(() => ids.secret(0)).toThrow("not a length");
        expect(() => {
          for (let n = 0; n < 300; n += 1) ids.secret(1);
        }).toThrow("no secret of 1 bytes is left");
      },
    },
  ],
);

function hexOf(bytes: number): RegExp {
  return new RegExp(`^[0-9a-f]{${bytes * 2}}$`);
}

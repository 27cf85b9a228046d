/** Identifiers and secrets from the system's random source. */
import { randomBytes, randomUUID } from "node:crypto";
import type { Ids } from "../ports/ids.ts";

export const realIds: Ids = {
  uuid: () => randomUUID(),
  secret: (bytes) => randomBytes(bytes).toString("hex"),
};

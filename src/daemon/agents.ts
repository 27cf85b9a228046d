/** The neighbour of the cascade that has the agents' processes, asked for late: each of the two is made from the other. */
import type { Agents } from "../cascade/deps.ts";

export function agentsOf(agents: () => Agents): Agents {
  return {
    stop: (threadId, intentId) => agents().stop(threadId, intentId),
    end: (incarnation) => agents().end(incarnation),
    release: (intentId) => agents().release(intentId),
    releaseAllBut: (needed) => agents().releaseAllBut(needed),
    replace: (threadId, input, claim) => agents().replace(threadId, input, claim),
    settled: (incarnation) => agents().settled(incarnation),
  };
}

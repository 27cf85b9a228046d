/** A daemon that says what a test tells it, a disk that remembers, and an agent in front of them. */
import type { HookDecision } from "../../src/core/hook-decision.ts";
import { FakeAgent, type FakeAgentOptions } from "./agent.ts";
import { DaemonAway, fieldOf, type HookDaemon, type HookPayload } from "./agent-protocol.ts";
import { FakeFiles } from "./files.ts";
import { FakeHarness } from "./harness.ts";
import { FakeIds } from "./ids.ts";

export const harness = new FakeHarness(new FakeFiles());
export const deny = (reason: string): HookDecision => ({
  decision: "deny",
  output: harness.denyOutput(reason),
});
export const delivered = { intentId: "i", turn: 1, batch: 1 };

/** A daemon that says what the test tells it, and a disk that remembers. */
export class Desk implements HookDaemon {
  readonly heard: string[] = [];
  readonly log: string[] = [];
  readonly spooled: HookPayload[] = [];
  readonly passed = new Map<number, HookPayload | null>();
  answers: Record<string, HookDecision | Error> = {};
  held = Promise.withResolvers<HookDecision>();
  away = false;
  /** Nothing is sent that the adapter's vocabulary does not have. */
  reads: (raw: HookPayload) => unknown = (raw) => harness.interpretEvent(raw);
  barred = false;
  #n = 0;

  async preToolUse(raw: HookPayload): Promise<HookDecision> {
    this.#hear(raw);
    const answer = this.answers[fieldOf(raw, "tool_use_id")] ?? { decision: "pass" };
    if (answer instanceof Error) throw answer;
    return answer;
  }
  async hold(token: string): Promise<HookDecision> {
    this.heard.push(`hold ${token}`);
    return this.held.promise;
  }
  async markDelivered(intentId: string): Promise<void> {
    if (this.away) throw new DaemonAway();
    this.heard.push(`delivered ${intentId}`);
  }
  async event(raw: HookPayload): Promise<void> {
    this.#hear(raw);
  }
  #hear(raw: HookPayload): void {
    if (this.away) throw new DaemonAway();
    this.reads(raw);
    const names = [fieldOf(raw, "hook_event_name"), fieldOf(raw, "tool_use_id")];
    this.heard.push(names.join(" ").trim());
  }

  disk = {
    barred: () => this.barred,
    recordPass: (payload: HookPayload | null) => {
      const n = (this.#n += 1);
      this.passed.set(n, payload);
      return () => void this.passed.delete(n);
    },
    spool: (raw: HookPayload) => void this.spooled.push(raw),
    log: (line: string) => void this.log.push(line),
  };
}

export function world(more: Partial<FakeAgentOptions> = {}): {
  desk: Desk;
  files: FakeFiles;
  agent: FakeAgent;
} {
  const desk = new Desk();
  const files = new FakeFiles();
  const agent = new FakeAgent({
    hooks: { daemon: desk, disk: desk.disk },
    files,
    ids: new FakeIds(),
    cwd: "/ws",
    ...more,
  });
  return { desk, files, agent };
}

/** An agent in a turn, its model asked. */
export async function asked(more: Partial<FakeAgentOptions> = {}) {
  const w = world(more);
  w.agent.start("startup", "go");
  await w.agent.run();
  w.desk.heard.length = 0;
  return w;
}

/** The launch of tests/fakes/harness.ts with Codex's calls: serial, witnessed by its session record, named by itself. */
import type { CreationFiles } from "../../src/lifecycle/creation-deps.ts";
import { fail } from "../../src/core/errors.ts";
import type { Proof } from "../../src/core/proofs.ts";
import type {
  Batching,
  HarnessEvent,
  HarnessName,
  SessionRecord,
} from "../../src/ports/harness.ts";
import { FakeHarness, PROVEN_VERSION } from "./harness.ts";
import { FakeSerialHarness, type FakeRecords } from "./serial-harness.ts";

export class FakeCodex extends FakeHarness {
  override readonly name: HarnessName = "codex";
  override readonly batching: Batching = "serial";
  override naming = "harness" as const;
  override says = "codex-cli 0.171.0";
  readonly #serial: FakeSerialHarness;

  constructor(files: Pick<CreationFiles, "writeDurable">, records: FakeRecords) {
    super(files);
    this.#serial = new FakeSerialHarness(records);
  }

  override async version(): Promise<string> {
    const found = /^codex-cli (\d+\.\d+\.\d+)$/.exec(this.says)?.[1];
    if (found === undefined)
      throw fail("failed", "harness-version", `the harness says ${JSON.stringify(this.says)}`);
    return found;
  }

  override gateProofs(version: string): Proof[] | null {
    return version === "0.171.0" ? super.gateProofs(PROVEN_VERSION) : null;
  }

  override interpretEvent(raw: unknown): HarnessEvent {
    return this.#serial.interpretEvent(raw);
  }

  override record(path: string): SessionRecord | null {
    return this.#serial.record(path);
  }

  override expectedResult(
    reason: string,
    call: { toolName: string; command?: string | undefined },
  ): string {
    return this.#serial.expectedResult(reason, call);
  }

  override refusalPrefixes(call: { toolName: string }): string[] {
    return this.#serial.refusalPrefixes(call);
  }
}

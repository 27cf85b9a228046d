/** A person's desktop: it keeps what was shown, and may fail or hang. */
import type { Notice, Notifier, Shown } from "../../src/ports/notifier.ts";

const MAX_LINE = 200;

export class FakeNotifier implements Notifier {
  readonly transport = "notify-send";
  /** Every notice that was shown, repeated ones included: nothing is filtered here. */
  readonly shown: Notice[] = [];
  /** `hangs`: answers only when the caller loses patience. Another text is the reason of a failure. */
  state: "works" | "hangs" | { fails: string } = "works";
  /** The notice appears and the answer is lost: the next call only. */
  losesAnswer = false;

  async show(notice: Notice, signal: AbortSignal): Promise<Shown> {
    for (const line of [notice.title, notice.body]) {
      if (line.length > MAX_LINE || /[\n\r\0]/.test(line)) {
        throw new Error(`not one line of text: ${JSON.stringify(line.slice(0, 80))}`);
      }
    }
    if (notice.title === "" || notice.eventId === "") throw new Error("a notice without a subject");
    if (signal.aborted) return { shown: false, reason: "given up before it began" };
    if (typeof this.state === "object") return { shown: false, reason: this.state.fails };
    if (this.state === "hangs") return gaveUp(signal);
    this.shown.push({ ...notice });
    if (!this.losesAnswer) return { shown: true };
    this.losesAnswer = false;
    return gaveUp(signal);
  }
}

function gaveUp(signal: AbortSignal): Promise<Shown> {
  return new Promise((resolve) => {
    const leave = (): void => resolve({ shown: false, reason: "no answer" });
    signal.addEventListener("abort", leave, { once: true });
  });
}

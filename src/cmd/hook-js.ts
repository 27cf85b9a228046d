/**
 * The hook without libc calls, for where bun:ffi does not work (BUN_JSC_useJIT=0, musl). Same inputs, deadlines and
 * ends as hook.ts; slower by its event loop. Connecting has no deadline of its own here: the whole has.
 */
import { AUTH_SCHEME, VERSION_HEADER } from "../rpc/contract/wire.ts";
import { VERSION } from "../version.ts";
import {
  denyGenerically,
  logRefusedEvent,
  passUnlessBarrier,
  refuse,
  rememberGreeting,
  spoolEvent,
} from "./hook-outage.ts";
import {
  callerFields,
  DECISION_MS,
  DELIVERED_MS,
  eventBudgetMs,
  EXIT_DENY,
  EXIT_PASS,
  HOLD_MARGIN_MS,
  isGreeting,
  isUnreachable,
  PRE_TOOL_USE,
  readVerdict,
  serverMessage,
  USER_PROMPT,
  type HookInputs,
  type Reply,
  type Verdict,
} from "./hook-protocol.ts";

/** Ends the process with the code the launcher expects. */
export async function runHookWithoutFfi(event: string, inputs: HookInputs): Promise<never> {
  const started = performance.now();
  const left = (): number => Math.max(1, started + DECISION_MS - performance.now());
  const payload = await within(Bun.stdin.bytes(), left());
  const credential = await Bun.file(inputs.credentialFile)
    .text()
    .then(
      (text) => text.split("\n", 1)[0]!.trim(),
      () => "",
    );
  const send = (method: string, body: Uint8Array, ms: number): Promise<Reply> =>
    post(inputs.socket, method, credential, body, ms);
  const code =
    event === PRE_TOOL_USE
      ? await decide(inputs, payload, send, left())
      : await report(inputs, event, payload ?? new Uint8Array(), send);
  return process.exit(code);
}

type Send = (method: string, body: Uint8Array, ms: number) => Promise<Reply>;

async function decide(
  inputs: HookInputs,
  payload: Uint8Array | null,
  send: Send,
  budgetMs: number,
): Promise<number> {
  if (payload === null) {
    const reason = "payload did not end in time";
    return passUnlessBarrier(inputs, PRE_TOOL_USE, new Uint8Array(), reason, false);
  }
  const reply = await send("PreToolUseDecision", withEvent(inputs, payload), budgetMs);
  let verdict = readVerdict(reply);
  if (verdict.act === "none") {
    return passUnlessBarrier(inputs, PRE_TOOL_USE, payload, verdict.reason, isUnreachable(reply));
  }
  if (verdict.act === "refused") return refuse(verdict.message);
  if (verdict.act === "hold") {
    const body = `${callerFields(inputs)},"token":${JSON.stringify(verdict.token)}}`;
    verdict = readVerdict(await send("Hold", Buffer.from(body), verdict.holdMs + HOLD_MARGIN_MS));
    if (verdict.act !== "pass" && verdict.act !== "deny") return denyGenerically();
  }
  return verdict.act === "pass" ? EXIT_PASS : deny(inputs, verdict, send);
}

async function deny(
  inputs: HookInputs,
  verdict: Extract<Verdict, { act: "deny" }>,
  send: Send,
): Promise<number> {
  await Bun.write(Bun.stdout, verdict.output);
  if (verdict.delivered !== null) {
    const { intentId, turn, batch } = verdict.delivered;
    const fields = JSON.stringify({ intentId, turn, batch }).slice(1);
    await send("MarkDelivered", Buffer.from(`${callerFields(inputs)},${fields}`), DELIVERED_MS);
  }
  return EXIT_DENY;
}

async function report(
  inputs: HookInputs,
  event: string,
  payload: Uint8Array,
  send: Send,
): Promise<number> {
  const underBarrier = event === "PostToolBatch" && (await Bun.file(inputs.barrierFile).exists());
  const greeted = isGreeting(event) && (await isGreeted(inputs));
  const budgetMs = eventBudgetMs(event, underBarrier, greeted);
  const reply = await send("ReportEvent", withEvent(inputs, payload), budgetMs);
  if (reply.status >= 200 && reply.status < 300) {
    return event === USER_PROMPT && !greeted ? rememberGreeting(inputs) : EXIT_PASS;
  }
  if (reply.status >= 400 && reply.status < 500) {
    return logRefusedEvent(inputs, event, payload, serverMessage(reply));
  }
  return spoolEvent(inputs, event, payload, isUnreachable(reply));
}

async function isGreeted({ greetedFile, incarnation }: HookInputs): Promise<boolean> {
  const text = await Bun.file(greetedFile)
    .text()
    .catch(() => "");
  return text.trim() === incarnation;
}

function withEvent(inputs: HookInputs, payload: Uint8Array): Uint8Array {
  return Buffer.concat([
    Buffer.from(`${callerFields(inputs)},"event":`),
    payload,
    Buffer.from("}"),
  ]);
}

async function post(
  socket: string,
  method: string,
  credential: string,
  body: Uint8Array,
  ms: number,
): Promise<Reply> {
  try {
    const response = await fetch(`http://kiki/v1/${method}`, {
      unix: socket,
      method: "POST",
      headers: {
        authorization: `${AUTH_SCHEME} ${credential}`,
        [VERSION_HEADER]: VERSION,
        "content-type": "application/json",
        connection: "close",
      },
      body,
      signal: AbortSignal.timeout(ms),
    });
    return { status: response.status, body: await response.text() };
  } catch (error) {
    const name = error instanceof Error ? error.name : "";
    return { status: 0, body: "", failure: name === "TimeoutError" ? "no answer" : "unreachable" };
  }
}

/** The value, or null when it has not come within `ms`. */
async function within<T>(value: Promise<T>, ms: number): Promise<T | null> {
  return Promise.race([value, Bun.sleep(ms).then(() => null)]);
}

/**
 * `kk-hook <event>`: asks the daemon what may happen to one tool call, or tells it what happened.
 *
 * Runs before every tool call of every agent, so it starts no event loop, imports no node module and never parses the
 * payload: raw standard input is spliced into one HTTP request over the unix socket. Whatever is rare (nobody
 * answers, a refusal, a spool) is imported when it happens. The launcher runs it and maps its exit code: 10 pass,
 * 11 deny with the verdict on stdout; anything else means that it died (harness chapter, "Hook path").
 */
import {
  HEAD_ROOM_BYTES,
  monotonicMs,
  openLibc,
  spanOf,
  type Libc,
  type Span,
} from "./hook-ffi.ts";
import {
  callerFields,
  CONNECT_MS,
  DECISION_MS,
  DELIVERED_MS,
  eventBudgetMs,
  EXIT_DENY,
  EXIT_PASS,
  HOLD_MARGIN_MS,
  hookInputs,
  isGreeting,
  isUnreachable,
  PRE_TOOL_USE,
  readVerdict,
  serverMessage,
  USER_PROMPT,
  type Delivered,
  type HookInputs,
  type Reply,
} from "./hook-protocol.ts";

type Rare = typeof import("./hook-outage.ts");

interface Call {
  libc: Libc;
  inputs: HookInputs;
  event: string;
  credential: string;
  /** The payload as read, in a buffer with room for the rest of the request. */
  payload: Span & { whole: boolean };
}

/** Ends the process. Never throws: what fails ends with another exit code, which the launcher takes for a death. */
export function runHook(): void {
  const started = monotonicMs();
  const event = process.argv[2] ?? "";
  const inputs = hookInputs(process.env);
  const libc = openLibc();
  if (libc === null) {
    void import("./hook-js.ts").then((m) => m.runHookWithoutFfi(event, inputs));
    return;
  }
  const payload = libc.readStdin(started + DECISION_MS);
  const credential = libc.readLine(inputs.credentialFile);
  const call: Call = { libc, inputs, event, credential, payload };
  if (event === PRE_TOOL_USE) decide(call, started);
  else report(call);
}

function decide(call: Call, started: number): void {
  const reply: Reply = call.payload.whole
    ? send(call, "PreToolUseDecision", withEvent(call), started + DECISION_MS)
    : { status: 0, body: "", failure: "no answer" };
  const verdict = readVerdict(reply);
  switch (verdict.act) {
    case "pass":
      return call.libc.exit(EXIT_PASS);
    case "deny":
      return deny(call, verdict.output, verdict.delivered);
    case "hold":
      return hold(call, verdict.token, verdict.holdMs);
    case "refused":
      return rare(call, (m) => m.refuse(verdict.message));
    case "none": {
      const reason = call.payload.whole ? verdict.reason : "payload did not end in time";
      return rare(call, (m) =>
        m.passUnlessBarrier(
          call.inputs,
          call.event,
          payloadBytes(call),
          reason,
          isUnreachable(reply),
        ),
      );
    }
  }
}

/** From here only an explicit pass allows the call (harness chapter: asking at once is what confirms the hold). */
function hold(call: Call, token: string, holdMs: number): void {
  const body = spanOf(`${callerFields(call.inputs)},"token":${JSON.stringify(token)}}`);
  const verdict = readVerdict(send(call, "Hold", body, monotonicMs() + holdMs + HOLD_MARGIN_MS));
  if (verdict.act === "pass") call.libc.exit(EXIT_PASS);
  if (verdict.act === "deny") return deny(call, verdict.output, verdict.delivered);
  rare(call, (m) => m.denyGenerically());
}

function deny(call: Call, output: string, delivered: Delivered | null): void {
  const { libc, inputs } = call;
  const written = libc.write(1, Buffer.from(output));
  if (written && delivered !== null) {
    const { intentId, turn, batch } = delivered;
    const fields = JSON.stringify({ intentId, turn, batch }).slice(1);
    const body = spanOf(`${callerFields(inputs)},${fields}`);
    send(call, "MarkDelivered", body, monotonicMs() + DELIVERED_MS);
  }
  libc.exit(EXIT_DENY);
}

function report(call: Call): void {
  const { libc, inputs, event } = call;
  const underBarrier = event === "PostToolBatch" && libc.exists(inputs.barrierFile);
  const greeted = isGreeting(event) && libc.readLine(inputs.greetedFile) === inputs.incarnation;
  const deadline = monotonicMs() + eventBudgetMs(event, underBarrier, greeted);
  const reply = send(call, "ReportEvent", withEvent(call), deadline);
  if (reply.status >= 200 && reply.status < 300) {
    if (event === USER_PROMPT && !greeted) return rare(call, (m) => m.rememberGreeting(inputs));
    libc.exit(EXIT_PASS);
  }
  rare(call, (m) => {
    const refused = reply.status >= 400 && reply.status < 500;
    if (refused) return m.logRefusedEvent(inputs, event, payloadBytes(call), serverMessage(reply));
    return m.spoolEvent(inputs, event, payloadBytes(call), isUnreachable(reply));
  });
}

/** Splices the payload into the body: `{"incarnation":…,"secret":…,"event":` + payload + `}`. */
function withEvent(call: Call): Span {
  const { payload, inputs } = call;
  const fields = Buffer.from(`${callerFields(inputs)},"event":`);
  fields.copy(payload.buffer, payload.start - fields.length);
  payload.buffer[payload.end] = 0x7d; // "}"
  return { buffer: payload.buffer, start: payload.start - fields.length, end: payload.end + 1 };
}

function payloadBytes(call: Call): Buffer {
  return call.payload.buffer.subarray(HEAD_ROOM_BYTES, call.payload.end);
}

function send(call: Call, method: string, body: Span, deadline: number): Reply {
  const { libc, inputs, credential } = call;
  return libc.exchange({
    socket: inputs.socket,
    method,
    credential,
    body,
    connectMs: CONNECT_MS,
    deadline,
  });
}

/** The rare paths use node's file functions, which cost too much to load before every call. */
function rare(call: Call, finish: (m: Rare) => number): void {
  void import("./hook-outage.ts").then((m) => call.libc.exit(finish(m)));
}

/** What a request and a session's record of the real Claude Code say about calls that were refused. */
import { readFileSync } from "node:fs";
import type { ModelMessage, RecordedRequest } from "../../../fixtures/model-servers/claude.ts";
import type { Report } from "../report.ts";
import { TOOL_OF } from "./agents.ts";

/** The payload as the model gets it as that call's result. */
export const expected = (id: string, payload: string): string =>
  `PreToolUse:${TOOL_OF[id] ?? "Bash"} hook error: ${payload}`;

/** Results of calls that failed, by call id. */
export function refusals(request: RecordedRequest): Map<string, string> {
  const results = [...toolResults(request.body.messages)].filter(([, { isError }]) => isError);
  return new Map(results.map(([id, { text }]) => [id, text]));
}

/** Tool results of a request by call id; a content that is not one string is kept as JSON. */
function toolResults(
  messages: readonly ModelMessage[],
): Map<string, { text: string; isError: boolean }> {
  const found = new Map<string, { text: string; isError: boolean }>();
  for (const { content } of messages) {
    if (typeof content === "string") continue;
    for (const part of content) {
      if (part["type"] !== "tool_result") continue;
      const body = part["content"];
      found.set(String(part["tool_use_id"]), {
        text: typeof body === "string" ? body : JSON.stringify(body),
        isError: part["is_error"] === true,
      });
    }
  }
  return found;
}

/** The session's own record must show the model's view: the denial for each blocked call. */
export function checkRecord(
  report: Report,
  file: string,
  calls: readonly string[],
  payload: string,
): void {
  const lines = readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "");
  const messages = lines
    .map((line) => JSON.parse(line) as { type?: string; message?: ModelMessage })
    .flatMap(({ type, message }) => (type === "user" && message !== undefined ? [message] : []));
  const found = toolResults(messages);
  report.check(
    "the session's record holds the denial for each call",
    calls.every((id) => found.get(id)?.text === expected(id, payload)),
    () => calls.map((id) => `${id}: ${found.get(id)?.text.slice(0, 100)}`).join("\n"),
  );
}

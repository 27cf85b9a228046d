/**
 * A model that says what it is told to, on 127.0.0.1 only, for as long as a proof lasts: the Messages API as Claude Code
 * uses it (2.1.332). It keeps what it was asked and knows nothing of proofs.
 */

export type ModelBlock =
  | { type: "text"; text: string }
  | { type: "tool_use"; id: string; name: string; input: object };

export interface ModelMessage {
  role: string;
  content: string | readonly Readonly<Record<string, unknown>>[];
}

export interface ModelRequest {
  messages: readonly ModelMessage[];
  /** Side questions, a title for the session for example, have none. */
  tools: number;
}

export interface ScriptedModel {
  /** For ANTHROPIC_BASE_URL. */
  readonly url: string;
  close(): Promise<void>;
}

/** `answer`: what the model says to a request that has tools; everything else gets "ok". */
export function scriptedModel(
  answer: (request: ModelRequest) => readonly ModelBlock[],
): ScriptedModel {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(incoming) {
      const path = new URL(incoming.url).pathname;
      if (path.endsWith("/count_tokens")) return Response.json({ input_tokens: 100 });
      if (path !== "/v1/messages" || incoming.method !== "POST") return Response.json({ data: [] });
      const body = (await incoming.json()) as {
        model?: string;
        stream?: boolean;
        messages?: ModelMessage[];
        tools?: unknown[];
      };
      const request = { messages: body.messages ?? [], tools: body.tools?.length ?? 0 };
      const blocks: readonly ModelBlock[] =
        request.tools > 0 ? answer(request) : [{ type: "text", text: "ok" }];
      const model = body.model ?? "scripted";
      return body.stream === true
        ? new Response(events(model, blocks), { headers: { "content-type": "text/event-stream" } })
        : Response.json({ ...message(model), content: blocks, stop_reason: stopReason(blocks) });
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    close: () => server.stop(true),
  };
}

/** Text of every `tool_result` by the call it is for; of a later one, when there are several. */
export function toolResults(messages: readonly ModelMessage[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const { content } of messages) {
    if (typeof content === "string") continue;
    for (const part of content)
      if (part["type"] === "tool_result")
        found.set(String(part["tool_use_id"]), resultText(part["content"]));
  }
  return found;
}

/** All text a person or program has written into the conversation. */
export function saidByUser(messages: readonly ModelMessage[]): string {
  return messages
    .filter((m) => m.role === "user")
    .map(({ content }) => (typeof content === "string" ? content : JSON.stringify(content)))
    .join("\n");
}

function resultText(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  const parts = content as Record<string, unknown>[];
  return parts.map((part) => (part["type"] === "text" ? String(part["text"]) : "")).join("");
}

const USAGE = {
  input_tokens: 1,
  output_tokens: 1,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
};

function message(model: string) {
  const id = `msg_${crypto.randomUUID().replaceAll("-", "")}`;
  return { id, type: "message", role: "assistant", model, stop_sequence: null, usage: USAGE };
}

function stopReason(blocks: readonly ModelBlock[]): string {
  return blocks.some((block) => block.type === "tool_use") ? "tool_use" : "end_turn";
}

/** The whole answer as server-sent events. */
function events(model: string, blocks: readonly ModelBlock[]): string {
  const event = (type: string, data: object): string =>
    `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
  const start = { ...message(model), content: [], stop_reason: null };
  const parts = blocks.map((block, index) => {
    const [content_block, delta] =
      block.type === "text"
        ? [
            { type: "text", text: "" },
            { type: "text_delta", text: block.text },
          ]
        : [
            { ...block, input: {} },
            { type: "input_json_delta", partial_json: JSON.stringify(block.input) },
          ];
    return (
      event("content_block_start", { index, content_block }) +
      event("content_block_delta", { index, delta }) +
      event("content_block_stop", { index })
    );
  });
  const end = { delta: { stop_reason: stopReason(blocks), stop_sequence: null }, usage: USAGE };
  return (
    event("message_start", { message: start }) +
    parts.join("") +
    event("message_delta", end) +
    event("message_stop", {})
  );
}

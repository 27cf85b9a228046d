/**
 * A model that says what it is told to, on 127.0.0.1 only, for as long as a proof lasts: the Responses API as Codex uses
 * it (0.171.0, a provider with `wire_api = "responses"`). It keeps what it was asked and knows nothing of proofs.
 */

export type ModelItem =
  | { type: "text"; text: string }
  | { type: "function"; id: string; name: string; namespace?: string; args: object }
  | { type: "custom"; id: string; name: string; input: string };

type Json = Readonly<Record<string, unknown>>;

export interface ModelRequest {
  /** The conversation so far, as the client has it. */
  input: readonly Json[];
  /** Names the model may call; `<namespace>.<name>` outside of Codex's own namespace. */
  tools: readonly string[];
  /** `parallel_tool_calls`, whatever it says. */
  parallel: unknown;
}

export interface ScriptedModel {
  /** Scheme, host and port. */
  readonly origin: string;
  /** For `base_url` of a provider. */
  readonly url: string;
  close(): Promise<void>;
}

/** Codex's own tools have no namespace, or this one where `use_responses_lite` puts them into an item of the input. */
const OWN_NAMESPACE = "functions";

/** `answer`: what the model says to a request that has tools; everything else gets "ok". */
export function scriptedModel(
  answer: (request: ModelRequest) => readonly ModelItem[],
): ScriptedModel {
  let count = 0;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(incoming) {
      const { pathname } = new URL(incoming.url);
      if (pathname.endsWith("/models")) return Response.json({ models: [], data: [] });
      if (incoming.method !== "POST" || !pathname.endsWith("/responses"))
        return new Response("not found", { status: 404 });
      const body = JSON.parse(await bodyText(incoming)) as Json;
      const input = Array.isArray(body["input"]) ? (body["input"] as Json[]) : [];
      const tools = toolNames(body, input);
      const items: readonly ModelItem[] =
        tools.length > 0
          ? answer({ input, tools, parallel: body["parallel_tool_calls"] })
          : [{ type: "text", text: "ok" }];
      count += 1;
      return new Response(events(items, String(count)), {
        headers: { "content-type": "text/event-stream" },
      });
    },
  });
  const origin = `http://127.0.0.1:${server.port}`;
  return { origin, url: `${origin}/v1`, close: () => server.stop(true) };
}

/** What the model is told of each call, by call id; of a later one, when there are several. */
export function callOutputs(input: readonly Json[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const { type, call_id: id, output } of input)
    if (type === "function_call_output" || type === "custom_tool_call_output")
      found.set(String(id), typeof output === "string" ? output : JSON.stringify(output));
  return found;
}

/** All text a person or program has written into the conversation. */
export function saidByUser(input: readonly Json[]): string {
  return input
    .filter(({ role }) => role === "user")
    .map(({ content }) => (Array.isArray(content) ? (content as Json[]) : []))
    .flatMap((parts) => parts.map(({ text }) => (typeof text === "string" ? text : "")))
    .join("\n");
}

/** In `tools`, or in an item of the input (`use_responses_lite`). */
function toolNames(body: Json, input: readonly Json[]): string[] {
  const lists = [
    body["tools"],
    ...input.filter(({ type }) => type === "additional_tools").map(({ tools }) => tools),
  ];
  return lists.flatMap((tools) => (Array.isArray(tools) ? (tools as Json[]).flatMap(namesOf) : []));
}

function namesOf(tool: Json): string[] {
  const name = String(tool["name"] ?? tool["type"]);
  if (!Array.isArray(tool["tools"])) return [name];
  const inner = (tool["tools"] as Json[]).flatMap(namesOf);
  return name === OWN_NAMESPACE ? inner : inner.map((one) => `${name}.${one}`);
}

/** Compressed for a provider that takes it. */
async function bodyText(incoming: Request): Promise<string> {
  const bytes = new Uint8Array(await incoming.arrayBuffer());
  const zstd = incoming.headers.get("content-encoding") === "zstd";
  return new TextDecoder().decode(zstd ? Bun.zstdDecompressSync(bytes) : bytes);
}

function wireItem(item: ModelItem, suffix: string): Json {
  const status = "completed";
  switch (item.type) {
    case "text": {
      const content = [{ type: "output_text", text: item.text, annotations: [] }];
      return { type: "message", id: `msg_${suffix}`, role: "assistant", status, content };
    }
    case "function": {
      const { id: call_id, name, namespace, args } = item;
      return {
        type: "function_call",
        id: `fc_${suffix}`,
        call_id,
        name,
        ...(namespace === undefined ? {} : { namespace }),
        arguments: JSON.stringify(args),
        status,
      };
    }
    case "custom": {
      const { id: call_id, name, input } = item;
      return { type: "custom_tool_call", id: `ctc_${suffix}`, call_id, name, input, status };
    }
  }
}

const USAGE = {
  input_tokens: 10,
  input_tokens_details: null,
  output_tokens: 5,
  output_tokens_details: null,
  total_tokens: 15,
};

/** The whole answer as server-sent events. */
function events(items: readonly ModelItem[], id: string): string {
  const event = (type: string, data: object): string =>
    `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
  const response = { id: `resp_${id}` };
  const parts = items.map((item, output_index) =>
    event("response.output_item.done", {
      output_index,
      item: wireItem(item, `${id}_${output_index}`),
    }),
  );
  return (
    event("response.created", { response }) +
    parts.join("") +
    event("response.completed", { response: { ...response, usage: USAGE } })
  );
}

/**
 * The model catalog of a thread: Codex's own (0.171.0, `codex debug models --bundled`), edited so that every model calls
 * tools directly, one at a time, and has no helpers. Models keep their names, prompts and limits.
 */
import { fail } from "../../../core/errors.ts";
import { baseEnv, firstLine, run } from "../../exec.ts";

const TIMEOUT_MS = 20_000;

export interface Model {
  slug: string;
  [field: string]: unknown;
}

/** What makes dispatch serial and every tool hooked. */
const EDITS = {
  // code_mode_only runs several tools inside one call that no hook sees.
  tool_mode: "direct",
  multi_agent_version: "disabled",
  // Requests say `parallel_tool_calls:false` exactly with this.
  use_responses_lite: true,
  experimental_supported_tools: [],
  supports_search_tool: false,
  // Both are dialogs at the start.
  upgrade: null,
  availability_nux: null,
} as const;

/** Whose entry a model gets that Codex does not know: the newest that called tools directly anyway. */
const PATTERN_FOR_UNKNOWN = "gpt-5.5";

const bundled = new Map<string, readonly Model[]>();

/** Codex's own models. `identity` names program and version: the answer is kept for as long as this process runs. */
export async function bundledModels(request: {
  program: string;
  identity: string;
  env: Record<string, string>;
  timeoutMs: number;
}): Promise<readonly Model[]> {
  const known = bundled.get(request.identity);
  if (known !== undefined) return known;
  const result = await run({
    argv: [request.program, "debug", "models", "--bundled"],
    cwd: "/",
    env: baseEnv(request.env),
    timeoutMs: Math.min(TIMEOUT_MS, request.timeoutMs),
  });
  const models = result.code === 0 ? modelsIn(result.stdout.toString("utf8")) : null;
  if (models === null) {
    throw fail(
      "failed",
      "codex-catalog",
      `Codex does not say which models it knows: ${firstLine(result.stderr) || "no list of models"}`,
      '[agent.codex] boundary = "restart" does without',
    );
  }
  bundled.set(request.identity, models);
  return models;
}

function modelsIn(text: string): Model[] | null {
  try {
    const { models } = JSON.parse(text) as { models?: unknown };
    const whole =
      Array.isArray(models) &&
      models.length > 0 &&
      models.every((m: Partial<Model> | null) => typeof m?.slug === "string");
    return whole ? (models as Model[]) : null;
  } catch {
    return null;
  }
}

/** Text of the generated catalog. `model`: the one the person asked for, which is added when Codex has never heard of it. */
export function catalogText(models: readonly Model[], model: string | null): string {
  const edited = models.map((m) => ({ ...m, ...EDITS }));
  if (model !== null && !models.some((m) => m.slug === model)) {
    const pattern = models.find((m) => m.slug === PATTERN_FOR_UNKNOWN) ?? models.at(-1);
    // Without an entry Codex makes one up, and asks for parallel calls.
    edited.push({
      ...pattern,
      ...EDITS,
      slug: model,
      display_name: model,
      description: "",
    } as never);
  }
  return `${JSON.stringify({ models: edited })}\n`;
}

/** Upgrades Codex would offer in a dialog, as if the person had seen them. */
export function seenUpgrades(models: readonly Model[]): Record<string, string> {
  const seen: Record<string, string> = {};
  for (const { slug, upgrade } of models) {
    const to = (upgrade as { model?: unknown } | null | undefined)?.model;
    if (typeof to === "string") seen[slug] = to;
  }
  return seen;
}

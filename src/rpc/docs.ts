/** Renders docs/rpc.md from the METHODS table, so that the page cannot say something else than the daemon does. */
import { z } from "zod";
import { approvalText, credentialText } from "./access-docs.ts";
import { zNewThread } from "./contract/inputs.ts";
import { MAX_BODY_BYTES, MAX_HOOK_BODY_BYTES, type MethodSpec } from "./contract/method.ts";
import { METHODS } from "./contract/methods.ts";
import {
  zAttention,
  zAuditRow,
  zDiagnosis,
  zRepoRef,
  zRepoSummary,
  zStep,
  zThreadSummary,
} from "./contract/types.ts";
import { AUTH_SCHEME, PROTOCOL, STATUS_BY_KIND, VERSION_HEADER } from "./contract/wire.ts";

/** The part of JSON Schema that zod 4 produces from the shapes used in the contract. */
interface Schema {
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: Schema | boolean;
  anyOf?: Schema[];
  oneOf?: Schema[];
  enum?: string[];
  const?: string;
  format?: string;
  pattern?: string;
}

const MEBIBYTE = 1024 * 1024;

const INTRO = `<!-- Made by scripts/gen-rpc-docs.ts from src/rpc/contract/methods.ts; a test fails when it is out of date. -->

# The daemon's HTTP contract

kkd serves HTTP with JSON over a unix socket, \`kkd.sock\` in the state folder (default \`~/.config/kiki\`; when that
path is too long for a socket, \`kk daemon status\` prints the real one). Every method is
\`POST /v1/<Method>\` with a JSON object as body. Protocol ${PROTOCOL}.

\`\`\`sh
state=~/.config/kiki

# asks for no credential
curl -sS --unix-socket "$state/kkd.sock" -d '{}' http://kiki/v1/DaemonStatus

# asks for any of this user's credentials
curl -sS --unix-socket "$state/kkd.sock" \\
  -H "Authorization: ${AUTH_SCHEME} $(cat "$state/registration-cred")" \\
  -d '{"repo": null, "closed": false}' http://kiki/v1/RepoThreadSummaries
\`\`\`

- **Unknown fields** are ignored; a missing required field is a 400 that names it. An empty body counts as \`{}\`.
- **Limits**: ${MAX_BODY_BYTES / MEBIBYTE} MiB a body, ${MAX_HOOK_BODY_BYTES / MEBIBYTE} MiB where noted; more is a 413.
- **Versions**: \`${VERSION_HEADER}\` travels both ways. A newer daemon serves older clients.
- **Credentials**: what each method takes is said with it; \`none\` answers anybody who reaches the socket (mode 0600 in a
  0700 folder). \`ThreadScoped\`, its own: only the credential of the thread the request is about. [access.md](access.md)
  has all methods in one table, with what is recorded of each request; [authority.md](authority.md) explains it.
- **Approvals**: a method that needs one is called with the \`approval\` that \`ConfirmApproval\` has issued for exactly these
  arguments. Without it: a 403, \`approval-needed\`.
- **Times** are ISO 8601 in UTC; commits are 40 hex digits.

\`kk … --json\` prints the output of one method, unchanged:

| command | prints the output of |
| --- | --- |
| \`kk init\` | \`RegisterRepo\` |
| \`kk new\` | \`GetThreadState\` of the new thread |
| \`kk ls\` | \`RepoThreadSummaries\` |
| \`kk status\` | \`GetThreadState\` |
| \`kk switch\` | \`EnsurePanes\` |
| \`kk repo ls\` | \`ListRepos\` |
| \`kk repo unregister\` | \`UnregisterRepo\` |
| \`kk presenter recover\` | \`RecoverApprovalPresenter\` |
| any of them, where a person's yes is needed and nobody can be asked | \`BeginApproval\` with \`challenge\` null, exit code 4 |
| \`kk config show\`, \`kk config get\` | \`GetConfig\` |
| \`kk thread audit\` | \`GetThreadAudit\` |
| \`kk audit log\` | \`GetAuditLog\` |
| \`kk doctor\` | \`Doctor\`, the client's own lines first |
| \`kk daemon status\` | \`DaemonStatus\` |
| \`kk version\` | \`{"version", "build"}\` of the program itself |

Errors are \`{"error": {"kind", "code", "message", "hint"?}}\`. \`code\` is stable; \`message\` is one line for people;
\`hint\` is the next thing to do. \`kk\` prints them as one line on stderr, with \`--json\` too.

| kind | HTTP status | exit code of \`kk\` |
| --- | --- | --- |
`;

const EXIT_BY_KIND: Record<keyof typeof STATUS_BY_KIND, number> = {
  failed: 1,
  usage: 2,
  notFound: 3,
  approval: 4,
  daemonUnavailable: 5,
  needsRepair: 6,
};

/** Shapes that several methods use: written out once, named everywhere else. */
const SHAPES: Record<string, z.ZodType> = {
  RepoRef: zRepoRef,
  RepoSummary: zRepoSummary,
  ThreadSummary: zThreadSummary,
  NewThread: zNewThread,
  Step: zStep,
  Attention: zAttention,
  Diagnosis: zDiagnosis,
  AuditRow: zAuditRow,
};

type Direction = "input" | "output";

/** The whole page, ending in one newline. */
export function renderRpcDocs(): string {
  const kinds = Object.entries(EXIT_BY_KIND).map(
    ([kind, exit]) =>
      `| \`${kind}\` | ${STATUS_BY_KIND[kind as keyof typeof STATUS_BY_KIND]} | ${exit} |`,
  );
  const methods = Object.entries(METHODS).map(([name, spec]) => renderMethod(name, spec));
  const shapes = Object.entries(SHAPES).map(([name, type]) =>
    [`### ${name}`, "", ...fieldLines(jsonSchema(type, "input"), "", "input"), ""].join("\n"),
  );
  return [
    `${INTRO}${kinds.join("\n")}`,
    "",
    "## Methods",
    "",
    ...methods,
    "## Shapes",
    "",
    ...shapes,
  ].join("\n");
}

function renderMethod(name: string, spec: MethodSpec): string {
  const limit = spec.maxBody === MAX_BODY_BYTES ? "" : ` · body ≤ ${spec.maxBody / MEBIBYTE} MiB`;
  return [
    `### ${name}`,
    "",
    spec.doc,
    "",
    `Credential: ${credentialText(spec.access)} · approval: ${approvalText(spec.access)}${limit}`,
    "",
    ...renderSide("Input", spec.input, "input"),
    "",
    ...renderSide("Output", spec.output, "output"),
    "",
  ].join("\n");
}

function renderSide(title: string, type: z.ZodType, io: Direction): string[] {
  const lines = fieldLines(jsonSchema(type, io), "", io);
  return lines.length === 0 ? [`${title}: nothing`] : [`${title}:`, "", ...lines];
}

function jsonSchema(type: z.ZodType, io: Direction): Schema {
  const { $schema: _, ...schema } = z.toJSONSchema(type, { io, unrepresentable: "any" });
  return schema as Schema;
}

function shapeName(schema: Schema, io: Direction): string | null {
  const text = JSON.stringify(schema);
  for (const [name, type] of Object.entries(SHAPES)) {
    if (JSON.stringify(jsonSchema(type, io)) === text) return name;
  }
  return null;
}

/** Field lines of an object, or of each alternative of a union; nothing for plain values. */
function fieldLines(schema: Schema, indent: string, io: Direction): string[] {
  const choices = alternatives(schema);
  if (choices.length > 1) {
    return choices.flatMap((choice) => [
      `${indent}- either`,
      ...fieldLines(choice, `${indent}  `, io),
    ]);
  }
  const only = choices[0] ?? schema;
  if (only.items !== undefined) return innerLines(only.items, indent, io);
  return Object.entries(only.properties ?? {}).flatMap(([name, field]) => {
    const optional = only.required?.includes(name) === true ? "" : ", optional";
    return [
      `${indent}- \`${name}\`: ${typeName(field, io)}${optional}`,
      ...innerLines(field, `${indent}  `, io),
    ];
  });
}

/** Below a field: nothing when its shape has a name of its own. */
function innerLines(schema: Schema, indent: string, io: Direction): string[] {
  const choices = alternatives(schema);
  const only = choices.length === 1 ? choices[0]! : schema;
  return shapeName(only, io) === null ? fieldLines(only, indent, io) : [];
}

/** The alternatives of a union that have fields; a nullable object has one. */
function alternatives(schema: Schema): Schema[] {
  const all = schema.anyOf ?? schema.oneOf ?? [];
  return all.filter((s) => s.properties !== undefined || s.type === "array");
}

function typeName(schema: Schema, io: Direction): string {
  const union = schema.anyOf ?? schema.oneOf;
  if (union !== undefined) return [...new Set(union.map((s) => typeName(s, io)))].join(" or ");
  const shape = shapeName(schema, io);
  if (shape !== null) return `[${shape}](#${shape.toLowerCase()})`;
  if (Array.isArray(schema.type)) return schema.type.join(" or ");
  if (schema.enum !== undefined) return schema.enum.map((v) => `\`${v}\``).join(" | ");
  if (schema.const !== undefined) return `\`${schema.const}\``;
  if (schema.type === "array") return `list of ${typeName(schema.items ?? {}, io)}`;
  if (schema.type === "object") return mapOrObject(schema, io);
  if (schema.format === "uuid") return "UUID";
  if (schema.pattern === "^[0-9a-f]{40}$") return "commit";
  return schema.type ?? "any JSON";
}

function mapOrObject(schema: Schema, io: Direction): string {
  const value = schema.additionalProperties;
  return schema.properties === undefined && typeof value === "object"
    ? `map of ${typeName(value, io)} by name`
    : "object";
}

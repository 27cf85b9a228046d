/** One member of somebody else's JSON file set, every other byte of it kept. Pure. */

interface Member {
  key: string;
  /** Where its key begins, its value begins, and its value ends. */
  at: number;
  from: number;
  to: number;
}

/**
 * `text` (one JSON object) with the member at `path` set to `value`. What is missing on the way is made. null when the
 * text is no JSON object, or something on the way is no object.
 */
export function withMember(text: string, path: readonly string[], value: unknown): string | null {
  try {
    if (!isObject(JSON.parse(text))) return null;
  } catch {
    return null;
  }
  return set(text, skipSpace(text, 0), path, value);
}

function set(text: string, open: number, path: readonly string[], value: unknown): string | null {
  const [key, ...rest] = path;
  if (key === undefined || text[open] !== "{") return null;
  const { members, close } = objectAt(text, open);
  // Of several with one name the last counts.
  const found = members.findLast((member) => member.key === key);
  if (found !== undefined) {
    if (rest.length > 0) return set(text, found.from, rest, value);
    return text.slice(0, found.from) + JSON.stringify(value) + text.slice(found.to);
  }
  const nested = rest.reduceRight<unknown>((inner, name) => ({ [name]: inner }), value);
  const made = `${JSON.stringify(key)}:${JSON.stringify(nested)}`;
  const last = members.at(-1);
  if (last === undefined) return `${text.slice(0, open + 1)}${made}${text.slice(close)}`;
  // Set off as its neighbour is.
  const before = members.at(-2);
  const comma = before === undefined ? open : text.indexOf(",", before.to);
  const space = text.slice(comma + 1, last.at);
  return `${text.slice(0, last.to)},${space}${made}${text.slice(last.to)}`;
}

/** Of text that is known to be JSON. */
function objectAt(text: string, open: number): { members: Member[]; close: number } {
  const members: Member[] = [];
  let i = skipSpace(text, open + 1);
  while (text[i] !== "}") {
    const at = i;
    const keyEnd = stringEnd(text, at);
    const from = skipSpace(text, text.indexOf(":", keyEnd) + 1);
    const to = valueEnd(text, from);
    members.push({ key: JSON.parse(text.slice(at, keyEnd)) as string, at, from, to });
    i = skipSpace(text, to);
    if (text[i] === ",") i = skipSpace(text, i + 1);
  }
  return { members, close: i };
}

function skipSpace(text: string, from: number): number {
  let i = from;
  while (/[\s\ufeff]/.test(text[i] ?? "")) i += 1;
  return i;
}

function stringEnd(text: string, from: number): number {
  let i = from + 1;
  while (text[i] !== '"') i += text[i] === "\\" ? 2 : 1;
  return i + 1;
}

function valueEnd(text: string, from: number): number {
  let depth = 0;
  let i = from;
  for (;;) {
    const c = text[i];
    if (c === '"') {
      i = stringEnd(text, i);
      if (depth === 0) return i;
      continue;
    }
    if (c === "{" || c === "[") depth += 1;
    else if (c === "}" || c === "]") {
      if (depth === 0) return i;
      depth -= 1;
      if (depth === 0) return i + 1;
    } else if (depth === 0 && (c === undefined || c === "," || /\s/.test(c))) return i;
    i += 1;
  }
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Three-way merge of texts by lines, as jj does it: changes that touch each other conflict. */

/** null: the two sides disagree about at least one region. */
export function mergeText(base: string, a: string, b: string): string | null {
  const lines = { base: linesOf(base), a: linesOf(a), b: linesOf(b) };
  const toA = matches(lines.base, lines.a);
  const toB = matches(lines.base, lines.b);
  const merged: string[] = [];
  let at = { base: 0, a: 0, b: 0 };
  for (;;) {
    // The next line of the base that both sides kept.
    let next = at.base;
    while (next < lines.base.length && (toA[next]! < 0 || toB[next]! < 0)) next += 1;
    const kept = next < lines.base.length;
    const end = { a: kept ? toA[next]! : lines.a.length, b: kept ? toB[next]! : lines.b.length };
    const region = mergeRegion(
      lines.base.slice(at.base, next).join(""),
      lines.a.slice(at.a, end.a).join(""),
      lines.b.slice(at.b, end.b).join(""),
    );
    if (region === null) return null;
    merged.push(region);
    if (!kept) return merged.join("");
    merged.push(lines.base[next]!);
    at = { base: next + 1, a: end.a + 1, b: end.b + 1 };
  }
}

/** What a side sees of a conflict; the shape is jj's, the words are not. */
export function conflictMarkers(adds: readonly string[], removes: readonly string[]): string {
  const parts = ["<<<<<<< conflict 1 of 1\n"];
  adds.forEach((add, at) => {
    parts.push(`+++++++ side ${at + 1}\n`, endLine(add));
    if (at < removes.length) parts.push(`------- base ${at + 1}\n`, endLine(removes[at]!));
  });
  parts.push(">>>>>>> conflict 1 of 1 ends\n");
  return parts.join("");
}

/** git-format hunk of one file: everything old away, everything new in, after the common ends. */
export function lineDiff(from: string, to: string): { removed: string[]; added: string[] } {
  const a = linesOf(from);
  const b = linesOf(to);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end))
    end += 1;
  return { removed: a.slice(start, a.length - end), added: b.slice(start, b.length - end) };
}

function mergeRegion(base: string, a: string, b: string): string | null {
  if (a === b || b === base) return a;
  return a === base ? b : null;
}

function linesOf(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

function endLine(text: string): string {
  return text === "" || text.endsWith("\n") ? text : `${text}\n`;
}

/** For each line of `from` its partner in `to`, or -1: a longest common subsequence. */
function matches(from: readonly string[], to: readonly string[]): number[] {
  const partner = from.map(() => -1);
  let start = 0;
  while (start < from.length && start < to.length && from[start] === to[start]) {
    partner[start] = start;
    start += 1;
  }
  let [fromEnd, toEnd] = [from.length, to.length];
  while (fromEnd > start && toEnd > start && from[fromEnd - 1] === to[toEnd - 1]) {
    fromEnd -= 1;
    toEnd -= 1;
    partner[fromEnd] = toEnd;
  }
  const width = toEnd - start + 1;
  const longest = new Uint32Array((fromEnd - start + 1) * width);
  for (let i = fromEnd - 1; i >= start; i -= 1) {
    for (let j = toEnd - 1; j >= start; j -= 1) {
      const here = (i - start) * width + (j - start);
      longest[here] =
        from[i] === to[j]
          ? longest[here + width + 1]! + 1
          : Math.max(longest[here + width]!, longest[here + 1]!);
    }
  }
  for (let i = start, j = start; i < fromEnd && j < toEnd;) {
    const here = (i - start) * width + (j - start);
    if (from[i] === to[j]) {
      partner[i] = j;
      i += 1;
      j += 1;
    } else if (longest[here + width]! >= longest[here + 1]!) i += 1;
    else j += 1;
  }
  return partner;
}

/**
 * The part of jj's revset language (0.46) that kiki uses. Stricter: an abbreviated id is an error, and so is a
 * function the fake does not know.
 */
import { fail } from "../../../src/core/errors.ts";
import type { CommitId } from "../../../src/core/ids.ts";
import { ROOT_COMMIT } from "../../../src/core/revset.ts";
import type { JjEngine } from "./engine.ts";
import type { Operation } from "./store.ts";
import { addsOf } from "./targets.ts";
import { isConflicted } from "./tree.ts";

type Ids = Set<CommitId>;

export interface RevsetScope {
  engine: JjEngine;
  op: Operation;
  /** Whose `@` a bare `@` is. */
  workspace: string;
}

/** Newest first: children before parents. Throws `jj-revset`. */
export function evaluate(scope: RevsetScope, text: string): CommitId[] {
  const { store } = scope.engine;
  const ids = [...new Parser(scope, text).parse()];
  return ids.sort((a, b) => store.commit(b).seq - store.commit(a).seq);
}

/** Name of jj's own tokens: strings, operators, and runs of what may stand in a name. */
const TOKEN =
  /\s*("(?:\\.|[^"\\])*"|'[^']*'|\.\.|::|[()|&~+,:]|-(?![\p{L}\p{N}_])|@|(?:[\p{L}\p{N}_/*]|[.+-](?=[\p{L}\p{N}_]))+)/uy;

class Parser {
  readonly #scope: RevsetScope;
  readonly #text: string;
  readonly #tokens: string[] = [];
  #at = 0;
  /** Hidden commits that were named: ranges reach them and what lies below. */
  readonly #named = new Set<CommitId>();

  constructor(scope: RevsetScope, text: string) {
    this.#scope = scope;
    this.#text = text;
    const token = new RegExp(TOKEN);
    while (token.lastIndex < text.trimEnd().length) {
      const match = token.exec(text);
      if (match === null) throw this.#error("Failed to parse revset");
      this.#tokens.push(match[1]!);
    }
    for (const id of text.match(/\b[0-9a-f]{40}\b/g) ?? []) {
      if (scope.engine.store.knows(scope.op, id)) this.#named.add(id);
    }
  }

  parse(): Ids {
    const ids = this.#union();
    if (this.#at < this.#tokens.length) throw this.#error("Failed to parse revset");
    return ids;
  }

  #union(): Ids {
    let ids = this.#intersection();
    while (this.#take("|")) ids = new Set([...ids, ...this.#intersection()]);
    return ids;
  }

  #intersection(): Ids {
    let ids = this.#range();
    for (;;) {
      if (this.#take("&")) ids = intersect(ids, this.#range());
      else if (this.#take("~")) ids = minus(ids, this.#range());
      else return ids;
    }
  }

  #range(): Ids {
    if (this.#take("~")) return minus(this.#all(), this.#range());
    if (this.#take("::")) return this.#ends() ? this.#all() : this.#ancestors(this.#postfix());
    if (this.#take("..")) return this.#ends() ? this.#all() : this.#ancestors(this.#postfix());
    const left = this.#postfix();
    if (this.#take("::")) {
      const below = this.#descendants(left);
      return this.#ends() ? below : intersect(below, this.#ancestors(this.#postfix()));
    }
    if (this.#take("..")) {
      const right = this.#ends() ? this.#all() : this.#ancestors(this.#postfix());
      return minus(right, this.#ancestors(left));
    }
    return left;
  }

  #postfix(): Ids {
    let ids = this.#primary();
    for (;;) {
      if (this.#take("-")) ids = this.#parents(ids);
      else if (this.#take("+")) ids = this.#children(ids);
      else return ids;
    }
  }

  #primary(): Ids {
    const token = this.#tokens[this.#at];
    if (token === undefined) throw this.#error("Failed to parse revset");
    this.#at += 1;
    if (token === "(") return this.#closed(this.#union());
    if (token === "@") return this.#workspaceHead(this.#scope.workspace);
    if (/^[)|&~+,:.-]/.test(token)) throw this.#error("Failed to parse revset");
    const name = unquoted(token);
    if (this.#take("@")) return this.#workspaceHead(name);
    if (this.#take("(")) return this.#closed(this.#call(name));
    return this.#symbol(name);
  }

  #call(name: string): Ids {
    const known: Record<string, () => Ids> = {
      all: () => this.#all(),
      none: () => new Set(),
      root: () => new Set([ROOT_COMMIT]),
      trunk: () => new Set([this.#bookmark("main") ?? ROOT_COMMIT]),
      visible_heads: () => this.#heads(this.#visible()),
      immutable: () => new Set(this.#scope.engine.immutableIn(this.#scope.op.view)),
      mutable: () => minus(this.#all(), this.#scope.engine.immutableIn(this.#scope.op.view)),
      working_copies: () => new Set(this.#scope.op.view.workspaces.values()),
      conflicts: () => this.#filter((id) => isConflicted(this.#commit(id).tree)),
      empty: () => this.#filter((id) => this.#scope.engine.store.isEmpty(this.#commit(id))),
      merges: () => this.#filter((id) => this.#commit(id).parents.length > 1),
      divergent: () => this.#filter((id) => this.#sameChange(this.#commit(id).change).length > 1),
      ancestors: () => this.#ancestors(this.#union()),
      descendants: () => this.#descendants(this.#union()),
      parents: () => this.#parents(this.#union()),
      children: () => this.#children(this.#union()),
      heads: () => this.#heads(this.#union()),
      roots: () => this.#roots(this.#union()),
      present: () => this.#present(),
      change_id: () => this.#changeId(),
      bookmarks: () => this.#bookmarks(),
    };
    const call = known[name];
    if (call === undefined) throw this.#error(`Function \`${name}\` doesn't exist (in this fake)`);
    return call();
  }

  #present(): Ids {
    const start = this.#at;
    try {
      return this.#union();
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes("doesn't exist")) throw error;
      // Everything up to the closing parenthesis of this call.
      this.#at = start;
      for (let depth = 0; this.#at < this.#tokens.length; this.#at += 1) {
        const token = this.#tokens[this.#at];
        if (token === "(") depth += 1;
        else if (token === ")") {
          if (depth === 0) break;
          depth -= 1;
        }
      }
      return new Set();
    }
  }

  #changeId(): Ids {
    const id = unquoted(this.#tokens[this.#at] ?? "");
    this.#at += 1;
    if (!/^[k-z]{32}$/.test(id)) throw this.#error(`not a full change id: ${id}`);
    return new Set(this.#sameChange(id));
  }

  #bookmarks(): Ids {
    const exact = this.#tokens[this.#at] === ")" ? null : this.#tokens[this.#at];
    if (exact !== null) this.#at += 1;
    const all = [...this.#scope.op.view.bookmarks];
    const wanted = exact === null ? all : all.filter(([name]) => name === unquoted(exact ?? ""));
    return new Set(wanted.flatMap(([, target]) => addsOf(target)));
  }

  #symbol(name: string): Ids {
    const bookmark = this.#bookmark(name);
    if (bookmark !== null) return new Set([bookmark]);
    if (/^[0-9a-f]{40}$/.test(name) && this.#scope.engine.store.knows(this.#scope.op, name))
      return new Set([name]);
    if (/^[k-z]{32}$/.test(name)) {
      const copies = this.#sameChange(name);
      if (copies.length > 1) throw this.#error(`Change ID \`${name}\` is divergent`);
      if (copies.length === 1) return new Set(copies);
    }
    if (/^[0-9a-f]{1,39}$/.test(name) || /^[k-z]{1,31}$/.test(name))
      throw this.#error(`Revision \`${name}\` doesn't exist: the fake takes full ids only`);
    throw this.#error(`Revision \`${name}\` doesn't exist`);
  }

  #bookmark(name: string): CommitId | null {
    const target = this.#scope.op.view.bookmarks.get(name);
    if (target === undefined) return null;
    if (target.length > 1) throw this.#error(`Name \`${name}\` is conflicted`);
    return target[0] ?? null;
  }

  #workspaceHead(name: string): Ids {
    const id = this.#scope.op.view.workspaces.get(name);
    if (id === undefined)
      throw this.#error(`Workspace \`${name}\` doesn't have a working-copy commit`);
    return new Set([id]);
  }

  #commit(id: CommitId): ReturnType<JjEngine["store"]["commit"]> {
    return this.#scope.engine.store.commit(id);
  }

  #visible(): ReadonlySet<CommitId> {
    return this.#scope.engine.store.index(this.#scope.op.view).visible;
  }

  #sameChange(change: string): readonly CommitId[] {
    return this.#scope.engine.store.index(this.#scope.op.view).byChange.get(change) ?? [];
  }

  #all(): Ids {
    if (this.#named.size === 0) return new Set(this.#visible());
    return new Set([...this.#visible(), ...this.#ancestors(this.#named)]);
  }

  #filter(test: (id: CommitId) => boolean): Ids {
    return new Set([...this.#all()].filter(test));
  }

  #ancestors(of: Iterable<CommitId>): Ids {
    return this.#scope.engine.store.ancestors(of);
  }

  #parents(of: Ids): Ids {
    return new Set([...of].flatMap((id) => [...this.#commit(id).parents]));
  }

  #children(of: ReadonlySet<CommitId>): Ids {
    return this.#filter((id) => this.#commit(id).parents.some((parent) => of.has(parent)));
  }

  #descendants(of: Ids): Ids {
    const found = new Set(of);
    const order = [...this.#all()].sort((a, b) => this.#commit(a).seq - this.#commit(b).seq);
    for (const id of order)
      if (this.#commit(id).parents.some((parent) => found.has(parent))) found.add(id);
    return found;
  }

  #heads(of: ReadonlySet<CommitId>): Ids {
    return minus(of, this.#ancestors(this.#parents(new Set(of))));
  }

  #roots(of: Ids): Ids {
    return new Set(
      [...of].filter((id) => {
        const below = this.#ancestors(this.#commit(id).parents);
        return ![...of].some((other) => below.has(other));
      }),
    );
  }

  #ends(): boolean {
    const token = this.#tokens[this.#at];
    return token === undefined || [")", "|", "&", "~", ","].includes(token);
  }

  #take(token: string): boolean {
    if (this.#tokens[this.#at] !== token) return false;
    this.#at += 1;
    return true;
  }

  #closed(ids: Ids): Ids {
    if (!this.#take(")")) throw this.#error("Failed to parse revset");
    return ids;
  }

  #error(message: string): Error {
    return fail("failed", "jj-revset", `jj could not resolve \`${this.#text}\`: ${message}`);
  }
}

function unquoted(token: string): string {
  if (token.startsWith("'")) return token.slice(1, -1);
  return token.startsWith('"') ? token.slice(1, -1).replace(/\\(.)/g, "$1") : token;
}

function intersect(a: ReadonlySet<CommitId>, b: ReadonlySet<CommitId>): Ids {
  return new Set([...a].filter((id) => b.has(id)));
}

function minus(a: ReadonlySet<CommitId>, b: ReadonlySet<CommitId>): Ids {
  return new Set([...a].filter((id) => !b.has(id)));
}

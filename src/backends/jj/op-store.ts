/**
 * Operations and views as files (jj 0.46, store type `simple_op_store`). They never change once written, so they
 * are kept. The probe reads them itself: it needs a view's git HEADs, which no jj command prints, and the hold of
 * an agent's tool call is no time to start processes.
 */
import { join } from "node:path";
import { isAncestorOp } from "../../core/op-graph.ts";
import { isOpId, ROOT_OP, type OpId } from "../../core/ids.ts";
import { readBytes, readText } from "../files.ts";
import { parseOperation, parseView, type StoredOperation, type StoredView } from "./protobuf.ts";

const STORE_TYPE = "simple_op_store";
/** Operations kept in memory per repository; a view is read when needed. */
const MAX_KEPT = 20_000;

export class OpStore {
  readonly #folder: string;
  readonly #operations = new Map<OpId, StoredOperation>();

  constructor(repoDir: string) {
    this.#folder = join(repoDir, "op_store");
  }

  /** False when the repository keeps its operations in some other way. */
  isKnownType(): boolean {
    return readText(join(this.#folder, "type"))?.trim() === STORE_TYPE;
  }

  /** null when the operation is not in the store (any more). Throws on bytes that are no operation. */
  operation(id: OpId): StoredOperation | null {
    if (id === ROOT_OP) return { view: "", parents: [] };
    const kept = this.#operations.get(id);
    if (kept !== undefined) return kept;
    const bytes = isOpId(id) ? readBytes(join(this.#folder, "operations", id)) : null;
    if (bytes === null) return null;
    const operation = parseOperation(bytes);
    if (this.#operations.size >= MAX_KEPT) this.#operations.clear();
    this.#operations.set(id, operation);
    return operation;
  }

  /** null when the operation or its view is not in the store. */
  view(op: OpId): StoredView | null {
    const operation = this.operation(op);
    if (operation === null) return null;
    if (operation.view === "") return { workspaces: new Map(), gitHeads: new Map() };
    const bytes = readBytes(join(this.#folder, "views", operation.view));
    return bytes === null ? null : parseView(bytes);
  }

  isAncestor(ancestor: OpId, of: OpId): boolean {
    return isAncestorOp(ancestor, of, (id) => this.operation(id)?.parents ?? []);
  }
}

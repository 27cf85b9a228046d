/** Bookmarks of threads that jj itself moved with a rewrite of their commit (threads chapter, Projections). */
import type { CommitId, OpId } from "../core/ids.ts";
import type { BookmarkView } from "../ports/jj.ts";
import { watchedThreads } from "../store/edges.ts";
import type { CascadeDeps } from "./deps.ts";
import { related } from "./related.ts";

interface Elsewhere {
  threadId: string;
  checkpoint: CommitId;
  commit: CommitId;
}

/** Threads whose bookmark is on one commit, and not on the recorded one. */
function elsewhere(db: CascadeDeps["db"], bookmarks: readonly BookmarkView[]): Elsewhere[] {
  const byName = new Map(bookmarks.map((b) => [b.name, b.targets]));
  return watchedThreads(db).flatMap((thread) => {
    const [target, ...others] = byName.get(thread.bookmark) ?? [];
    const { threadId, checkpoint } = thread;
    if (checkpoint === null || target === undefined || others.length > 0) return [];
    return target === checkpoint ? [] : [{ threadId, checkpoint, commit: target }];
  });
}

function commitsOf(found: readonly Elsewhere[]): Set<CommitId> {
  return new Set(found.flatMap((e) => [e.checkpoint, e.commit]));
}

/** Commits that `followedBookmarks` will ask about as things stand. */
export function bookmarkCommits(
  db: CascadeDeps["db"],
  bookmarks: readonly BookmarkView[],
): Set<CommitId> {
  return commitsOf(elsewhere(db, bookmarks));
}

/** Where the thread's bookmark went with its commit: same change id, one visible successor. */
export async function followedBookmarks(
  deps: Pick<CascadeDeps, "db" | "jj">,
  op: OpId,
  bookmarks: readonly BookmarkView[],
): Promise<{ threadId: string; commit: CommitId }[]> {
  const found = elsewhere(deps.db, bookmarks);
  if (found.length === 0) return [];
  const { rows } = await related(deps.jj, op, commitsOf(found), new Set());
  return found.filter(({ checkpoint, commit }) => {
    const [old, fresh] = [rows.get(checkpoint), rows.get(commit)];
    const same = old !== undefined && fresh !== undefined && old.changeId === fresh.changeId;
    return same && !fresh.divergent;
  });
}

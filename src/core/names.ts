/** The one place that turns a thread name into a slug, and the slug into jj, tmux and path names. */
import { err, ok, type Result } from "./result.ts";

/** Bytes; keeps session, bookmark and directory names inside every tool's limits. */
export const MAX_SLUG_BYTES = 60;

/**
 * Lower-case `[a-z0-9-]`, other runs → `-`, trimmed, at most 60 bytes.
 * An empty slug (only punctuation, only non-Latin letters) is refused rather than invented.
 */
export function slugOf(name: string): Result<string, string> {
  const slug = name
    .normalize("NFKD")
    .replace(/[\u0300-\u036f]/g, "") // é → e: decomposed accents fall away instead of becoming a dash
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+/, "")
    .slice(0, MAX_SLUG_BYTES)
    .replace(/-+$/, "");
  if (slug === "") return err("a thread name needs at least one letter a–z or digit");
  return ok(slug);
}

/** `slug`, else `slug-2`, `slug-3`… the first that `taken` does not hold; still within the byte limit. */
export function uniqueSlug(slug: string, taken: (candidate: string) => boolean): string {
  if (!taken(slug)) return slug;
  for (let n = 2; ; n += 1) {
    const suffix = `-${n}`;
    const candidate = slug.slice(0, MAX_SLUG_BYTES - suffix.length).replace(/-+$/, "") + suffix;
    if (!taken(candidate)) return candidate;
  }
}

/** Words of a prompt that make a default thread name. */
export function nameFromPrompt(prompt: string, maxWords = 5): string {
  return prompt.trim().split(/\s+/).slice(0, maxWords).join(" ");
}

/** tmux forbids dots and colons in session names; a slug has none, and the repo part is hex. */
export function sessionName(repoId: string, slug: string): string {
  return `kk-${repoId.replace(/-/g, "").slice(0, 8)}-${slug}`;
}

export function bookmarkName(slug: string): string {
  return `kk/${slug}`;
}

export function workspaceName(slug: string): string {
  return `kk-${slug}`;
}

/** `<parent of repo>/<repo dir name>-kiki-<slug>`, or below `workspacesRoot` when configured. */
export function workspacePath(repoRoot: string, slug: string, workspacesRoot?: string): string {
  const cut = repoRoot.lastIndexOf("/");
  const parent = workspacesRoot ?? (cut <= 0 ? "" : repoRoot.slice(0, cut));
  return `${parent}/${repoRoot.slice(cut + 1)}-kiki-${slug}`;
}

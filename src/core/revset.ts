/** The little kiki has to know of jj's revset language. */

/** The commit every jj repository starts from; `trunk()` resolves to it where there is no trunk (jj 0.46). */
export const ROOT_COMMIT = "0".repeat(40);

/** String literals are skipped; then `@` counts alone, not as part of `name@`, `name@remote` or `"name"@`. */
const AT = /("(?:\\.|[^"\\])*"@?|'[^']*'@?)|(?<![\p{L}\p{N}_"'@])@(?![\p{L}\p{N}_"'])/gu;

/**
 * `revset` as it means in `workspace`: kiki asks from a folder that is no workspace, where a bare `@` means nothing,
 * so each becomes `"workspace"@`.
 */
export function atOfWorkspace(revset: string, workspace: string): string {
  const quoted = `"${workspace.replace(/["\\]/g, "\\$&")}"@`;
  return revset.replace(AT, (_match, literal: string | undefined) => literal ?? quoted);
}

/** What `kk --version` prints: the version in package.json, or "dev" when run from the sources. */
export const VERSION: string = typeof KIKI_VERSION === "undefined" ? "dev" : KIKI_VERSION;

/**
 * Content hash of the sources this binary was built from, or "dev". Client and daemon compare it:
 * two builds of one version can still disagree about the protocol.
 */
export const BUILD: string = typeof KIKI_BUILD === "undefined" ? "dev" : KIKI_BUILD;

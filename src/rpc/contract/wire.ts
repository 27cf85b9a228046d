/** Constants of the transport that client, server and hook agree on. */

export const VERSION_HEADER = "x-kiki-version";
export const AUTH_SCHEME = "Kiki";
/** Bumped when an older client can no longer be served. A newer daemon serves older hooks. */
export const PROTOCOL = 1;
/** Linux binds 112 bytes, macOS 103; kiki keeps below both and hashes longer paths. */
export const MAX_SOCKET_PATH_BYTES = 100;

/** Error body: `{"error": {kind, code, message, hint?}}`, with the HTTP status below. */
export const STATUS_BY_KIND = {
  usage: 400,
  approval: 403,
  notFound: 404,
  failed: 500,
  needsRepair: 409,
  daemonUnavailable: 503,
} as const;

/** Identifiers and secrets, injected so that tests are reproducible. */
export interface Ids {
  uuid(): string;
  /** `bytes` random bytes as lower-case hex. */
  secret(bytes: number): string;
}

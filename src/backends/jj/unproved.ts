/** Why a probe answers `Unknown`. Thrown and caught inside the probe only. */
export class Unproved extends Error {
  /** `busy` may be otherwise in a moment; the rest needs a look. */
  readonly kind: UnprovedKind;

  constructor(kind: UnprovedKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

export type UnprovedKind =
  | "busy"
  | "heads"
  | "forgotten"
  | "operation-lost"
  | "sibling-operation"
  | "unreadable"
  | "unsupported";

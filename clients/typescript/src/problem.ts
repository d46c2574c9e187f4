/** What can go wrong, as one error with the hub's stable code. */

/** The codes that a program may want to tell apart; the hub may have others. */
export type ProblemCode =
  | "invalid_request"
  | "invalid_message"
  | "unauthenticated"
  | "forbidden"
  | "bundle_unknown"
  | "batch_unknown"
  | "batch_sealed"
  | "not_found"
  | "message_conflict"
  | "bundle_open"
  | "bundle_id_used"
  | "body_too_large"
  | "not_owner"
  | "origin_did_not_deliver"
  | "overloaded"
  | "unavailable"
  | "partly_stored"
  | "outcome_unknown"
  | "storage_full"
  | "internal"
  | (string & {});

/** What is wrong with one message of a `send`. */
export interface MessageFault {
  index: number;
  code: ProblemCode;
  detail: string;
  field?: string;
  id?: string;
}

interface ProblemParts {
  status?: number;
  retriable?: boolean;
  correlationId?: string | undefined;
  retryAfter?: number | undefined;
  fields?: Readonly<Record<string, unknown>>;
}

/** What the hub refused, or that the hub could not be asked. */
export class RestanteError extends Error {
  override readonly name = "RestanteError";
  /** Stable: a program may decide by it. */
  readonly code: ProblemCode;
  /** What happened and what to do, for people. */
  readonly detail: string;
  /** Whether the same call may succeed later. */
  readonly retriable: boolean;
  /** The status of the answer; 0 if there was none. */
  readonly status: number;
  /** Finds the call in the hub's log. */
  readonly correlationId: string | undefined;
  /** After how many seconds the hub asks to be asked again. */
  readonly retryAfter: number | undefined;
  /** All fields of the problem, those of its code included: `bundle_id`, `dequeued_at`, `expected`, … */
  readonly fields: Readonly<Record<string, unknown>>;

  constructor(code: ProblemCode, detail: string, parts: ProblemParts = {}, options?: ErrorOptions) {
    super(`${detail} (${code})`, options);
    this.code = code;
    this.detail = detail;
    this.retriable = parts.retriable ?? false;
    this.status = parts.status ?? 0;
    this.correlationId = parts.correlationId;
    this.retryAfter = parts.retryAfter;
    this.fields = parts.fields ?? {};
  }

  /** The faults of the messages of a `send`, by their place in it; at most 100 are listed. */
  get faults(): readonly MessageFault[] {
    const errors = this.fields["errors"];
    return Array.isArray(errors) ? (errors as MessageFault[]) : [];
  }
}

export function invalidRequest(detail: string): RestanteError {
  return new RestanteError("invalid_request", detail);
}

export function unavailable(detail: string, cause?: unknown): RestanteError {
  return new RestanteError("unavailable", detail, { retriable: true }, cause === undefined ? undefined : { cause });
}

/** The error of a problem that the hub wrote. */
export function problemOf(fields: Readonly<Record<string, unknown>>, parts: ProblemParts = {}): RestanteError {
  const { code, detail, title, status, retriable, correlation_id } = fields;
  const told = textOr(detail, textOr(title, "The hub refused the call without saying why."));
  const known: ProblemParts = {
    ...parts,
    retriable: retriable === true,
    correlationId: textOr(correlation_id, parts.correlationId),
    fields,
  };
  return new RestanteError(textOr(code, "internal"), told, typeof status === "number" ? { ...known, status } : known);
}

function textOr<Other>(value: unknown, other: Other): string | Other {
  return typeof value === "string" ? value : other;
}

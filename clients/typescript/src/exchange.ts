/** Requests and answers over HTTP, repeated where that is safe. */

import { target, type Query } from "./address.js";
import { warnOfPlaintext, type HubPlaces } from "./places.js";
import { invalidRequest, problemOf, RestanteError, unavailable } from "./problem.js";
import { backOff, Deadline, pause, type Retries } from "./retries.js";

/** All that a call needs to know beside its arguments. */
export interface Terms {
  places: HubPlaces;
  /** The address that is asked now. */
  readonly url: string;
  token: string | undefined;
  /** Seconds for an answer, beyond those that a peek is to wait at the hub. */
  timeout: number;
  retries: Retries;
  fetch: typeof globalThis.fetch;
  socket: typeof globalThis.WebSocket | undefined;
}

export interface Request {
  method: "GET" | "POST" | "DELETE";
  path: string;
  query?: Query;
  headers?: Readonly<Record<string, string>>;
  body?: string;
  /** Seconds, if not those of the terms. */
  timeout?: number;
}

export interface Answer {
  status: number;
  headers: Headers;
  body: Uint8Array<ArrayBuffer>;
}

export interface Answered {
  answer: Answer;
  /** An earlier attempt got no answer, and may have been carried out. */
  maybeDone: boolean;
}

class Failure {
  readonly cause: unknown;
  readonly reason: string;
  /** Whether the hub may have got the request. */
  readonly reached: boolean;

  constructor(cause: unknown, reason: string, reached: boolean) {
    this.cause = cause;
    this.reason = reason;
    this.reached = reached;
  }
}

const PROBLEM = "application/problem+json";
const NOT_OWNER = 421;
/** What Node says when there was no connection. Browsers do not say: there, the hub may have got the request. */
const NOT_REACHED = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT)$/;

/**
 * The first answer that is not "come later". `attempt` makes each attempt, given the seconds since the first.
 * Every call that is made of this one may be repeated: messages have ids, and bundles too.
 */
export async function answered(
  terms: Terms,
  attempt: (elapsed: number) => Request,
  signal?: AbortSignal,
): Promise<Answered> {
  const began = performance.now();
  const elapsed = (): number => (performance.now() - began) / 1_000;
  let maybeDone = false;
  let owner: string | undefined;
  for (let attempts = 1; ; attempts += 1) {
    const request = attempt(elapsed());
    const place: string = owner ?? terms.url;
    const reply = await exchange(terms, place, request, signal);
    if (!(reply instanceof Failure) && !isLater(reply)) return { answer: reply, maybeDone };
    maybeDone ||= request.method !== "GET" && mayBeDone(reply);
    owner = ownerIn(terms, reply);
    const known = owner !== undefined && attempts === 1;
    const seconds = known ? 0 : Math.max(backOff(attempts, terms.retries), retryAfter(reply) ?? 0);
    if (attempts > terms.retries.times || elapsed() + seconds > terms.retries.seconds) {
      throw givenUp(terms, reply, attempts, maybeDone);
    }
    if (owner === undefined) terms.places.passOn(place);
    await pause(seconds, signal);
  }
}

/** Where a node says that a partition is. Any other node brings a call there as well. */
function ownerIn(terms: Terms, reply: Answer | Failure): string | undefined {
  return reply instanceof Failure || reply.status !== NOT_OWNER ? undefined : terms.places.usable(fieldsOf(reply)["owner"]);
}

/** The answer, if it has one of these statuses; else throws the error that it tells. */
export function expect(terms: Terms, answer: Answer, ...statuses: number[]): Answer {
  if (!statuses.includes(answer.status)) throw errorOf(terms, answer);
  return answer;
}

/** The JSON of an answer. What it holds is the hub's word; a body that is no JSON is no hub's. */
export function json<Value>(terms: Terms, answer: Answer): Value {
  try {
    return JSON.parse(new TextDecoder().decode(answer.body)) as Value;
  } catch (error) {
    throw unavailable(`The answer of ${terms.url} cannot be read: ${error}. Is it a hub, and of this version?`, error);
  }
}

/** The error that an answer tells; or that this is no hub. */
export function errorOf(terms: Terms, answer: Answer): RestanteError {
  const { status } = answer;
  const correlationId = answer.headers.get("restante-correlation-id") ?? undefined;
  if (isProblem(answer)) {
    return problemOf(json(terms, answer), { status, correlationId, retryAfter: retryAfter(answer) });
  }
  if (status === 401 || status === 403) {
    const code = status === 401 ? "unauthenticated" : "forbidden";
    return new RestanteError(code, "The hub does not accept this token. Give a valid one.", { status, correlationId });
  }
  if (status >= 500 || status === 429) {
    const detail = `The answer of ${terms.url} has the status ${status}, and is not that of a hub. Is it a proxy whose hub is down?`;
    return new RestanteError("unavailable", detail, { status, retriable: true, retryAfter: retryAfter(answer) });
  }
  const detail = `The server at ${terms.url} is no hub, or has no such route: its answer is ${status}. Check the address.`;
  return new RestanteError("invalid_request", detail, { status });
}

/** The headers that take the token to an address. If others can read it on the way, that is warned of. */
export function credentials({ token }: Terms, place: string): Record<string, string> {
  if (token === undefined) return {};
  warnOfPlaintext(place);
  return { Authorization: `Bearer ${token}` };
}

export function unreachable(terms: Terms, error: unknown): RestanteError {
  const advice = "Is `restante serve` running there? For a web page: does the hub list its origin in server.origins?";
  return unavailable(`The hub at ${terms.url} cannot be reached: ${reasonOf(error)}. ${advice}`, error);
}

export async function answerOf(response: Response): Promise<Answer> {
  return { status: response.status, headers: response.headers, body: new Uint8Array(await response.arrayBuffer()) };
}

/** One attempt. Throws only when the caller has aborted it. */
async function exchange(terms: Terms, place: string, request: Request, signal?: AbortSignal): Promise<Answer | Failure> {
  signal?.throwIfAborted();
  const deadline = new Deadline(signal);
  deadline.set(request.timeout ?? terms.timeout);
  try {
    const response = await terms.fetch(place + target(request.path, request.query ?? []), {
      method: request.method,
      headers: { ...request.headers, ...credentials(terms, place) },
      cache: "no-store",
      signal: deadline.signal,
      ...(request.body === undefined ? {} : { body: request.body }),
    });
    return await answerOf(response);
  } catch (error) {
    signal?.throwIfAborted();
    if (deadline.passed) return new Failure(error, "no answer came in time", true);
    return new Failure(error, reasonOf(error), !NOT_REACHED.test(systemCode(error)));
  } finally {
    deadline.end();
  }
}

function isLater(answer: Answer): boolean {
  if (isProblem(answer)) return [NOT_OWNER, 429, 503].includes(answer.status) && !isFinal(answer);
  return [429, 502, 503, 504].includes(answer.status);
}

/** Whether the hub itself says that a repetition does not help. */
function isFinal(answer: Answer): boolean {
  return fieldsOf(answer)["retriable"] === false;
}

/** A hub that says "come later" has done nothing, unless it says so. */
function mayBeDone(reply: Answer | Failure): boolean {
  if (reply instanceof Failure) return reply.reached;
  return !isProblem(reply) || ["outcome_unknown", "partly_stored"].includes(String(fieldsOf(reply)["code"]));
}

function givenUp(terms: Terms, reply: Answer | Failure, attempts: number, maybeDone: boolean): RestanteError {
  const error = reply instanceof Failure ? withoutAnswer(terms, reply) : errorOf(terms, reply);
  const tried = attempts > 1 && reply instanceof Failure ? ` It was tried ${attempts} times.` : "";
  const parts = { retriable: true, status: error.status, correlationId: error.correlationId, fields: error.fields };
  if (maybeDone) {
    const advice = "The call may have been carried out; repeating it with the same ids does no harm.";
    return new RestanteError("outcome_unknown", `${error.detail} ${advice}${tried}`, parts, { cause: error });
  }
  return tried ? new RestanteError("unavailable", error.detail + tried, parts, { cause: error }) : error;
}

function withoutAnswer(terms: Terms, failure: Failure): RestanteError {
  if (!failure.reached) return unreachable(terms, failure.cause);
  return unavailable(`The hub at ${terms.url} gave no answer: ${failure.reason}.`, failure.cause);
}

function isProblem(answer: Answer): boolean {
  return (answer.headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase() === PROBLEM;
}

function fieldsOf(answer: Answer): Record<string, unknown> {
  try {
    return JSON.parse(new TextDecoder().decode(answer.body)) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** Seconds, where the hub names some. */
function retryAfter(reply: Answer | Failure): number | undefined {
  const named = reply instanceof Failure ? null : reply.headers.get("retry-after");
  return named !== null && /^\d{1,9}$/.test(named) ? Number(named) : undefined;
}

/** `fetch` says "fetch failed" or "Failed to fetch"; what led to it says more. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (!(cause instanceof Error)) return String(cause);
  return cause.message || systemCode(error) || cause.name;
}

function systemCode(error: unknown): string {
  const cause = error instanceof Error ? (error.cause as { code?: unknown } | undefined) : undefined;
  return typeof cause?.code === "string" ? cause.code : "";
}

export function checkToken(token: string | undefined): void {
  if (token !== undefined && !/^[!-~]+$/.test(token)) {
    throw invalidRequest("The token is empty or holds characters that no token has, such as a space or a line end.");
  }
}

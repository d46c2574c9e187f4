/** One mailbox: look, confirm, ask why, follow. */

import { queryOf, segment } from "./address.js";
import { answered, expect, json, errorOf, type Answer, type Terms } from "./exchange.js";
import { follow, type LiveOptions } from "./live.js";
import { LiveDoor } from "./live_door.js";
import { decode, type Message, type WireMessage } from "./message.js";
import { RestanteError, unavailable } from "./problem.js";

/** Seconds. The hub clips longer waits. */
const WAIT_MAX = 25;
/** Seconds that an origin may take to deliver the content of a claim-check bundle. */
const CONTENT_MAX = 30;

export interface PeekOptions {
  /** Look at messages of these origins only. */
  origins?: readonly string[];
  originGroups?: readonly string[];
  /** A UUID that you choose for a new bundle. */
  bundleId?: string;
  /** For content that the origin delivers. */
  format?: string;
  maxMessages?: number;
  maxWeight?: number;
  /** Seconds to wait at the hub until something is there, at most 25. */
  wait?: number;
  signal?: AbortSignal;
}

export interface CollectOptions extends Omit<PeekOptions, "bundleId" | "wait"> {
  /** End when so many seconds brought no bundle; 0 ends at the first look that finds none. Without it: never. */
  idle?: number;
}

export interface Dequeued {
  bundle_id: string;
  messages: number;
}

export interface WaitingMessages {
  origin: string;
  kind: string;
  messages: number;
  oldest: string;
}

export interface OpenBundle {
  bundle_id: string;
  origin: string;
  origin_group: string;
  messages: number;
  opened_at: string;
  taken_by?: string;
}

/** Why a peek answers what it answers. */
export interface Explanation {
  reason:
    | "ready"
    | "nothing_waiting"
    | "not_yet_visible"
    | "bundle_open_in_group"
    | "origin_did_not_deliver"
    | "recipient_unknown"
    | (string & {});
  /** The same in a sentence. */
  text: string;
  waiting: WaitingMessages[];
  open_bundles: OpenBundle[];
  not_yet_visible: number;
}

/** What the origin of a claim-check bundle delivered. */
export interface BundleContent {
  media_type: string;
  bytes: Uint8Array<ArrayBuffer>;
}

interface BundleParts<Data> {
  bundle_id: string;
  origin: string;
  kind: string;
  document_types: string[];
  message_count: number;
  messages: Message<Data>[];
  content?: BundleContent;
}

export class Recipient<Data = unknown> {
  readonly name: string;
  readonly #terms: Terms;
  readonly #path: string;
  readonly #ticket: () => Promise<{ ticket: string }>;

  /** Programs say `hub.recipient(name)`. */
  constructor(terms: Terms, name: string, ticket: () => Promise<{ ticket: string }>) {
    this.name = name;
    this.#terms = terms;
    this.#path = `/v1/recipients/${segment(name, "recipient")}`;
    this.#ticket = ticket;
  }

  /** The open bundle, or the next one; null when there is nothing (`explain` says why). */
  async peek(options: PeekOptions = {}): Promise<Bundle<Data> | null> {
    const { wait = 0, signal } = options;
    const longest = Math.min(Math.max(wait, 0), WAIT_MAX);
    const asked = queryOf({
      origin: options.origins,
      origin_group: options.originGroups,
      bundle_id: options.bundleId,
      format: options.format,
      max_messages: options.maxMessages,
      max_weight: options.maxWeight,
    });
    const attempt = (elapsed: number) => {
      const left = Math.max(longest - elapsed, 0);
      const query = left ? [...asked, ["wait", left.toFixed(3)] as const] : asked;
      const timeout = this.#terms.timeout + left + CONTENT_MAX;
      return { method: "GET", path: `${this.#path}/peek`, query, timeout, headers: { Accept: "application/json" } } as const;
    };
    const { answer } = await answered(this.#terms, attempt, signal);
    const parts = this.#bundleOf(expect(this.#terms, answer, 200, 204));
    return parts && new Bundle(this, parts);
  }

  /** Confirm a bundle: its messages are collected, and the next bundle may come. */
  async dequeue(bundleId: string, { signal }: { signal?: AbortSignal } = {}): Promise<Dequeued> {
    const path = `${this.#path}/bundles/${segment(bundleId, "bundle id")}`;
    const request = { method: "DELETE", path, headers: { Accept: "application/json" } } as const;
    const { answer, maybeDone } = await answered(this.#terms, () => request, signal);
    if (answer.status === 200) return json(this.#terms, answer);
    const error = errorOf(this.#terms, answer);
    const { dequeued_at, messages } = error.fields;
    // An attempt that got no answer has done it.
    const done = maybeDone && error.code === "bundle_unknown" && dequeued_at !== undefined;
    if (done && typeof messages === "number") return { bundle_id: bundleId.toLowerCase(), messages };
    throw error;
  }

  /**
   * Bundle after bundle, waiting for mail in between. A bundle is dequeued when the loop asks for the next one.
   * `break`, `return` and an error leave it open, and it comes again: call `bundle.dequeue()` before a `break`.
   * The loop ends when the signal is aborted.
   */
  async *collect({ idle, ...options }: CollectOptions = {}): AsyncGenerator<Bundle<Data>, void, void> {
    const now = (): number => performance.now() / 1_000;
    for (let since = now(); ; ) {
      const left = idle === undefined ? WAIT_MAX : Math.min(since + idle - now(), WAIT_MAX);
      const bundle = await untilAborted(this.peek({ ...options, wait: left }), options.signal);
      if (bundle === undefined) return;
      if (bundle !== null) {
        yield bundle;
        if (!bundle.dequeued) await bundle.dequeue();
        since = now();
      } else if (idle !== undefined && now() - since >= idle) {
        return;
      }
    }
  }

  /** Why a peek answers what it answers. */
  async explain(
    options: { origins?: readonly string[]; originGroups?: readonly string[]; signal?: AbortSignal } = {},
  ): Promise<Explanation> {
    const query = queryOf({ origin: options.origins, origin_group: options.originGroups });
    const request = { method: "GET", path: `${this.#path}/explain`, query, headers: { Accept: "application/json" } } as const;
    const { answer } = await answered(this.#terms, () => request, options.signal);
    return json(this.#terms, expect(this.#terms, answer, 200));
  }

  /**
   * Each message as it comes, once and in the order of the sequence numbers; connections that are lost are made again.
   * Looking is all it is: messages stay in the mailbox. The loop ends when the signal is aborted.
   */
  live(options: LiveOptions = {}): AsyncGenerator<Message<Data>, void, void> {
    const door = new LiveDoor(this.#terms, `${this.#path}/live`, options, this.#ticket);
    return follow<Data>(door, this.#terms.retries, options);
  }

  #bundleOf(answer: Answer): BundleParts<Data> | null {
    if (answer.status === 204) return this.#nothing(answer);
    const { headers } = answer;
    const messageCount = Number(headers.get("restante-message-count"));
    if (headers.get("restante-content") !== "claim-check") {
      const parts = json<Omit<BundleParts<Data>, "messages"> & { messages: WireMessage[] }>(this.#terms, answer);
      return { ...parts, message_count: parts.messages.length, messages: parts.messages.map((one) => decode<Data>(one)) };
    }
    return {
      bundle_id: required(this.#terms, headers, "restante-bundle-id"),
      origin: decodeURIComponent(required(this.#terms, headers, "restante-origin")),
      kind: decodeURIComponent(required(this.#terms, headers, "restante-kind")),
      document_types: documentTypes(headers.get("restante-document-types") ?? ""),
      message_count: messageCount,
      messages: [],
      content: { media_type: headers.get("content-type") ?? "application/octet-stream", bytes: answer.body },
    };
  }

  #nothing(answer: Answer): null {
    if (answer.headers.get("restante-empty-reason") !== "origin_did_not_deliver") return null;
    const detail = `The origin of ${this.name}'s bundle did not deliver its content in time. Peek again later.`;
    throw new RestanteError("origin_did_not_deliver", detail, { status: 204, retriable: true });
  }
}

/** Messages that are collected together. It stays the same until it is dequeued. */
export class Bundle<Data = unknown> {
  readonly recipient: string;
  readonly bundle_id: string;
  readonly origin: string;
  readonly kind: string;
  /** Distinct. Of a claim-check bundle with very many, `"..."` is the last and stands for the others. */
  readonly document_types: string[];
  readonly message_count: number;
  /** Empty if the origin delivered the content. */
  readonly messages: Message<Data>[];
  /** What the origin delivered, if the messages hold no data themselves. */
  readonly content: BundleContent | undefined;
  readonly #mailbox: Recipient<Data>;
  #dequeued = false;

  /** Programs say `recipient.peek()`. */
  constructor(mailbox: Recipient<Data>, parts: BundleParts<Data>) {
    this.#mailbox = mailbox;
    this.recipient = mailbox.name;
    this.bundle_id = parts.bundle_id;
    this.origin = parts.origin;
    this.kind = parts.kind;
    this.document_types = parts.document_types;
    this.message_count = parts.message_count;
    this.messages = parts.messages;
    this.content = parts.content;
  }

  /** Whether this object has confirmed it. */
  get dequeued(): boolean {
    return this.#dequeued;
  }

  /** Confirm it: the messages are collected, and the next bundle may come. */
  async dequeue(options: { signal?: AbortSignal } = {}): Promise<Dequeued> {
    const done = await this.#mailbox.dequeue(this.bundle_id, options);
    this.#dequeued = true;
    return done;
  }
}

/** What was promised; undefined if the signal was aborted before. */
async function untilAborted<Value>(promise: Promise<Value>, signal?: AbortSignal): Promise<Value | undefined> {
  try {
    return await promise;
  } catch (error) {
    if (signal?.aborted) return undefined;
    throw error;
  }
}

function documentTypes(header: string): string[] {
  return header === "" ? [] : header.split(",").map((each) => decodeURIComponent(each.trim()));
}

function required(terms: Terms, headers: Headers, name: string): string {
  const value = headers.get(name);
  if (value === null) throw unavailable(`The answer of ${terms.url} has no header ${name}. Is it a hub of this version?`);
  return value;
}

/**
 * Messages as a program has them, and as they travel.
 *
 * Fields have the names of the HTTP contract. One is different: bytes are `bytes` here, a Uint8Array, and
 * `data_base64` on the wire.
 */

import { fromBase64, toBase64 } from "./base64.js";
import { RestanteError } from "./problem.js";
import { newId } from "./uuid.js";

/** What a message to send says. At most one of `data`, `text` and `bytes` is given; with none the origin delivers the content. */
export interface OutgoingContent {
  /** Any JSON value, null included. Numbers beyond 2⁵³ lose digits in JavaScript: send those as text. */
  data?: unknown;
  text?: string;
  bytes?: Uint8Array | ArrayBuffer;
  /** Text of 1 to 256 characters. Without one, the client makes a UUID before it sends. */
  id?: string;
  origin?: string;
  kind?: string;
  document_type?: string;
  weight?: number;
  bundleable?: boolean;
  media_type?: string;
  properties?: Readonly<Record<string, string>>;
  expires_at?: Date | string;
  /** Delays the message: until then the hub keeps it aside. */
  visible_at?: Date | string;
}

/** A message to send to one recipient. */
export interface OutgoingMessage extends OutgoingContent {
  recipient: string;
  recipients?: never;
}

/** A message to send to each of several recipients, under the same id: its data travels once. */
export interface Broadcast extends OutgoingContent {
  recipients: readonly string[];
  recipient?: never;
}

export type Outgoing = OutgoingMessage | Broadcast;

export type MessageState = "waiting" | "collected" | "expired" | "withdrawn" | "set_aside";

/** A message as the hub gives it. Times are text as the hub wrote it, to the microsecond. */
export interface Message<Data = unknown> {
  id: string;
  recipient: string;
  origin: string;
  kind: string;
  document_type: string;
  weight: number;
  bundleable: boolean;
  media_type: string;
  /** There if the media type is JSON. */
  data?: Data;
  /** There if the media type is `text/*` and the data is UTF-8. */
  text?: string;
  /** There if the data is anything else. */
  bytes?: Uint8Array<ArrayBuffer>;
  properties: Readonly<Record<string, string>>;
  expires_at?: string;
  sequence_number: number;
  published_at: string;
  collected_at?: string;
  state: MessageState;
}

export type WireMessage = Readonly<Record<string, unknown>>;

/** Messages with their ids, ready to be sent any number of times. */
export interface Parcel {
  ids: string[];
  body: string;
}

export function parcelOf(messages: Outgoing | Iterable<Outgoing>): Parcel {
  const all = isMany(messages) ? [...messages] : [messages];
  const encoded = all.map(encode);
  return { ids: encoded.map((message) => message.id), body: jsonOf({ messages: encoded }) };
}

export function decode<Data>(wire: WireMessage): Message<Data> {
  const { data_base64, ...rest } = wire;
  const message = rest as unknown as Message<Data>;
  if (typeof data_base64 === "string") message.bytes = fromBase64(data_base64);
  return message;
}

function isMany(messages: Outgoing | Iterable<Outgoing>): messages is Iterable<Outgoing> {
  return typeof messages === "object" && messages !== null && Symbol.iterator in messages;
}

function encode(message: Outgoing, index: number): { id: string } {
  if (typeof message !== "object" || message === null) throw faulty(index, "A message is an object with a recipient.");
  const { bytes, expires_at, visible_at, id, ...rest } = message;
  check(message, index);
  return {
    id: id ?? newId(),
    ...rest,
    ...(bytes === undefined ? {} : { data_base64: toBase64(new Uint8Array(bytes)) }),
    ...(expires_at === undefined ? {} : { expires_at: timeOf("expires_at", expires_at, index) }),
    ...(visible_at === undefined ? {} : { visible_at: timeOf("visible_at", visible_at, index) }),
  };
}

/** JavaScript would quietly make something else of these; all other rules are the hub's. */
function check(message: Outgoing, index: number): void {
  const lost = (["data", "text", "bytes"] as const).find((name) => name in message && message[name] === undefined);
  if (lost !== undefined) throw faulty(index, `${lost} is undefined. Leave the field out, or give null for JSON's null.`);
  const { data } = message;
  if (data instanceof ArrayBuffer || ArrayBuffer.isView(data)) throw faulty(index, "data holds bytes: give them as bytes.");
  if (["function", "symbol", "bigint"].includes(typeof data)) throw faulty(index, `data is a ${typeof data}, not JSON.`);
}

function timeOf(field: string, time: Date | string, index: number): string {
  if (typeof time === "string") return time;
  if (Number.isNaN(time.getTime())) throw faulty(index, `${field} is no valid time.`);
  return time.toISOString();
}

function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    throw new RestanteError("invalid_message", `The messages cannot be written as JSON: ${error}.`, {}, { cause: error });
  }
}

function faulty(index: number, detail: string): RestanteError {
  const code = "invalid_message";
  return new RestanteError(code, `Message ${index}: ${detail}`, { fields: { errors: [{ index, code, detail }] } });
}

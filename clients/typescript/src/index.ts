/** A client of a Restante hub, for browsers and Node. `connect` is where to begin. */

export {
  connect,
  Hub,
  type HubOptions,
  type LogPosition,
  type Receipt,
  type SendOptions,
  type StoredRange,
  type Ticket,
} from "./hub.js";
export {
  Bundle,
  Recipient,
  type BundleContent,
  type CollectOptions,
  type Dequeued,
  type Explanation,
  type OpenBundle,
  type PeekOptions,
  type WaitingMessages,
} from "./recipient.js";
export type { LiveOptions, LiveState, LiveTransport } from "./live.js";
export type { Broadcast, Message, MessageState, Outgoing, OutgoingContent, OutgoingMessage } from "./message.js";
export { RestanteError, type MessageFault, type ProblemCode } from "./problem.js";
export type { Retries } from "./retries.js";

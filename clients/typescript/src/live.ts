/**
 * Following a mailbox: one connection after another, each from where the one before it ended.
 *
 * The position is the number of the last message that was shown. Whatever ends a connection (a cut, a hub that restarts,
 * a gap in the counters because the hub dropped messages, a reader that is too slow), the next one begins after the
 * position, and the hub replays from there. So each message is shown once, in order, and none is passed over.
 */

import type { LiveDoor } from "./live_door.js";
import { decode, type Message, type WireMessage } from "./message.js";
import { invalidRequest, RestanteError, unavailable } from "./problem.js";
import { backOff, pause, type Retries } from "./retries.js";

/** `auto`: server-sent events where there is a token, which they can carry, else a WebSocket where there are some. */
export type LiveTransport = "auto" | "websocket" | "events";

export interface LiveOptions {
  /** Begin after this sequence number: 0 is all of history. Without it: what is published from now on. */
  after?: number;
  /** A free name for this client. */
  client?: string;
  transport?: LiveTransport;
  /**
   * Gives a fresh ticket for each connection, for a page whose own server asks the hub for them. When it fails it is
   * asked again later, as a connection is; to end the loop, abort the signal.
   */
  ticket?: () => string | Promise<string>;
  signal?: AbortSignal;
  /** Hears how the connection stands. */
  onState?: (state: LiveState) => void;
}

export type LiveState =
  | { stage: "connecting" }
  /** `reason` says why, if it begins earlier than was asked for. */
  | { stage: "connected"; sequenceNumber: number; reason?: string }
  /** `delay` is after how many seconds it is tried again. */
  | { stage: "reconnecting"; reason: string; delay: number };

interface Frame {
  type: string;
  sequence_number?: number;
  counter?: number;
  message?: WireMessage;
  reason?: string;
  detail?: string;
  reconnect_after?: number;
  /** The address of the node that has the mailbox now. */
  owner?: string;
}

/** Seconds after which a connection counts as steady: the next pause is a short one again. */
const STEADY = 5;
/** Seconds: a longer wait than this is not heeded. */
const RECONNECT_MAX = 600;

export async function* follow<Data>(
  door: LiveDoor,
  retries: Retries,
  { after, signal, onState }: LiveOptions,
): AsyncGenerator<Message<Data>, void, void> {
  const course = new Course(retries, after);
  while (!signal?.aborted) {
    onState?.({ stage: "connecting" });
    course.connecting();
    try {
      for await (const text of door.frames(course.position, course.takeOwner(), signal)) {
        const frame = frameOf(text);
        if (frame.type === "connected") onState?.(course.connected(frame));
        if (frame.type === "disconnect") course.dismissed(frame);
        if (frame.type !== "message") continue;
        if (!course.counts(frame)) break;
        const message = decode<Data>(frame.message ?? {});
        if (course.takes(message.sequence_number)) yield message;
      }
    } catch (error) {
      if (signal?.aborted) return;
      course.refused(error);
    }
    const state = course.lost();
    onState?.(state);
    await pause(state.delay, signal).catch(() => undefined);
  }
}

/** How the connections go, one after another: decided without input and output. */
class Course {
  position: number | undefined;
  readonly #retries: Retries;
  readonly #began = performance.now();
  #everConnected = false;
  /** In a row, none of which came to anything. */
  #attempts = 0;
  #connectedAt: number | undefined;
  #counter = 0;
  #shown = 0;
  #reason = "";
  #delay: number | undefined;
  #owner: unknown;

  constructor(retries: Retries, after: number | undefined) {
    if (after !== undefined && !(Number.isSafeInteger(after) && after >= 0)) {
      throw invalidRequest(`after is a sequence number from 0, not ${after}.`);
    }
    this.#retries = retries;
    this.position = after;
  }

  connecting(): void {
    this.#attempts += 1;
    this.#connectedAt = this.#delay = undefined;
    this.#counter = this.#shown = 0;
    this.#reason = "The connection ended.";
  }

  connected(frame: Frame): LiveState {
    const sequenceNumber = numberOf(frame.sequence_number, "the first frame has no sequence number");
    const wanted = this.position ?? sequenceNumber;
    this.#everConnected = true;
    this.#connectedAt = performance.now();
    // A hub that was restored from a backup ends earlier, and goes on from there with other messages.
    this.position = sequenceNumber;
    if (sequenceNumber >= wanted) return { stage: "connected", sequenceNumber };
    return { stage: "connected", sequenceNumber, reason: `The hub ends at ${sequenceNumber}, before ${wanted}.` };
  }

  /** Whether no message is missing before this one. */
  counts(frame: Frame): boolean {
    const counter = numberOf(frame.counter, "a message has no counter");
    const whole = counter === this.#counter + 1;
    this.#counter = counter;
    if (!whole) {
      this.#reason = "The hub passed messages over: they are replayed.";
      if (this.#shown) this.#delay = 0;
    }
    return whole;
  }

  /** Whether a message with this number is new. */
  takes(sequenceNumber: unknown): boolean {
    const number = numberOf(sequenceNumber, "a message has no sequence number");
    if (this.position !== undefined && number <= this.position) return false;
    this.position = number;
    this.#shown += 1;
    return true;
  }

  /** Where the hub said that the mailbox is: that is tried once. */
  takeOwner(): unknown {
    const owner = this.#owner;
    this.#owner = undefined;
    return owner;
  }

  /** The hub's last word. */
  dismissed(frame: Frame): void {
    const told = [frame.reason, frame.detail].filter(Boolean).join(": ");
    if (frame.reason === "protocol_error") throw invalidRequest(`The hub ended the connection: ${told}.`);
    this.#reason = `The hub ended the connection: ${told}.`;
    this.#delay = frame.reconnect_after;
    this.#owner = frame.owner;
    if (frame.reconnect_after !== undefined) this.#attempts = 0;
  }

  /** There was no connection, or it broke. Throws what no repetition can help. */
  refused(error: unknown): void {
    if (!(error instanceof RestanteError) || !error.retriable) throw error;
    if (!this.#everConnected && this.#isOutOfPatience()) throw error;
    this.#reason = error.detail;
    this.#delay = error.retryAfter;
    this.#owner = error.fields["owner"];
  }

  /** The connection is gone: when the next one is tried. */
  lost(): LiveState & { stage: "reconnecting" } {
    const steady = this.#connectedAt !== undefined && performance.now() - this.#connectedAt >= 1_000 * STEADY;
    if (steady || this.#shown) this.#attempts = 0;
    const own = backOff(Math.max(this.#attempts, 1), this.#retries);
    const delay = this.#delay === undefined ? own : Math.min(Math.max(this.#delay, 0), RECONNECT_MAX);
    return { stage: "reconnecting", reason: this.#reason, delay };
  }

  #isOutOfPatience(): boolean {
    const { times, seconds } = this.#retries;
    return this.#attempts > times || performance.now() - this.#began > 1_000 * seconds;
  }
}

function frameOf(text: string): Frame {
  try {
    return JSON.parse(text) as Frame;
  } catch (error) {
    throw unreadable(String(error));
  }
}

function numberOf(value: unknown, missing: string): number {
  if (typeof value !== "number") throw unreadable(missing);
  return value;
}

/** Not tried again: it may have been a message, and the next connection would bring the same. */
function unreadable(why: string): RestanteError {
  const { detail } = unavailable(`A frame of the hub cannot be read: ${why}. Is it a hub of this version?`);
  return new RestanteError("unavailable", detail, { retriable: false });
}

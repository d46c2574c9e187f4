/** How a live connection is opened: over a WebSocket or as server-sent events, with a token, a ticket or neither. */

import { queryOf, target } from "./address.js";
import { answerOf, credentials, errorOf, unreachable, type Terms } from "./exchange.js";
import { eventData } from "./live_events.js";
import type { LiveOptions } from "./live.js";
import { socketFrames, SocketRefused } from "./live_socket.js";
import { invalidRequest, RestanteError, unavailable } from "./problem.js";
import { Deadline } from "./retries.js";

/** Seconds. The hub says something every 15. */
const SILENCE_MAX = 40;

export class LiveDoor {
  readonly #terms: Terms;
  readonly #path: string;
  readonly #options: LiveOptions;
  readonly #newTicket: () => Promise<{ ticket: string }>;
  #overSocket: boolean;

  constructor(terms: Terms, path: string, options: LiveOptions, newTicket: () => Promise<{ ticket: string }>) {
    this.#terms = terms;
    this.#path = path;
    this.#options = options;
    this.#newTicket = newTicket;
    this.#overSocket = choose(terms, options);
  }

  /** The frames of one connection. It ends when the connection ends in order, and throws when there is none or it breaks. */
  async *frames(after: number | undefined, owner: unknown, signal?: AbortSignal): AsyncGenerator<string, void, void> {
    const place = this.#terms.places.usable(owner) ?? this.#terms.url;
    try {
      yield* this.#framesAt(place, after, signal);
    } catch (error) {
      this.#terms.places.passOn(place);
      throw error;
    }
  }

  async *#framesAt(place: string, after: number | undefined, signal?: AbortSignal): AsyncGenerator<string, void, void> {
    if (this.#overSocket) {
      try {
        yield* socketFrames(this.#terms, await this.#socketUrl(place, after), signal);
        return;
      } catch (error) {
        if (!(error instanceof SocketRefused)) throw error;
        // A WebSocket does not say why it was refused, and some proxies let none through. Events tell both apart.
        if (this.#options.transport === "websocket") throw unavailable(error.message, error);
        this.#overSocket = false;
      }
    }
    yield* this.#events(place, after, signal);
  }

  async #socketUrl(place: string, after: number | undefined): Promise<string> {
    const ticket = await this.#ticket(this.#terms.token !== undefined);
    return place.replace(/^http/, "ws") + this.#target(after, ticket);
  }

  async *#events(place: string, after: number | undefined, signal?: AbortSignal): AsyncGenerator<string, void, void> {
    const ticket = await this.#ticket(false);
    const deadline = new Deadline(signal);
    deadline.set(this.#terms.timeout);
    try {
      const stream = await this.#opened(place, after, ticket, deadline);
      yield* eventData(pieces(stream, deadline));
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof RestanteError) throw error;
      throw deadline.passed ? unavailable("The hub was silent for too long.", error) : unreachable(this.#terms, error);
    } finally {
      deadline.end();
    }
  }

  async #opened(
    place: string,
    after: number | undefined,
    ticket: string | undefined,
    deadline: Deadline,
  ): Promise<ReadableStream<Uint8Array>> {
    const url = place + this.#target(after, ticket);
    const headers = { Accept: "text/event-stream", ...(ticket === undefined ? credentials(this.#terms, place) : {}) };
    const response = await this.#terms.fetch(url, { headers, cache: "no-store", signal: deadline.signal });
    if (response.status !== 200 || response.body === null) throw errorOf(this.#terms, await answerOf(response));
    return response.body;
  }

  #target(after: number | undefined, ticket: string | undefined): string {
    return target(this.#path, queryOf({ client: this.#options.client, after, ticket }));
  }

  async #ticket(needed: boolean): Promise<string | undefined> {
    if (this.#options.ticket !== undefined) return await given(this.#options.ticket);
    return needed ? (await this.#newTicket()).ticket : undefined;
  }
}

function choose(terms: Terms, { transport = "auto", ticket }: LiveOptions): boolean {
  if (transport === "events") return false;
  if (transport === "auto") return terms.socket !== undefined && (terms.token === undefined || ticket !== undefined);
  if (transport !== "websocket") throw invalidRequest(`transport is auto, websocket or events, not ${transport}.`);
  if (terms.socket === undefined) {
    throw invalidRequest("There is no WebSocket here (Node has one from 22 on). Give one to connect, or use events.");
  }
  return true;
}

/** The program's own ticket. It comes over the same network that may be down: a failure is tried again, as ours are. */
async function given(ticket: () => string | Promise<string>): Promise<string> {
  try {
    return await ticket();
  } catch (error) {
    if (error instanceof RestanteError) throw error;
    throw unavailable(`There is no ticket: ${error instanceof Error ? error.message : error}.`, error);
  }
}

/** The text of a stream as it comes. The hub's silence counts, the reader's slowness does not. */
async function* pieces(stream: ReadableStream<Uint8Array>, deadline: Deadline): AsyncGenerator<string, void, void> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  for (;;) {
    deadline.set(SILENCE_MAX);
    const { done, value } = await reader.read();
    deadline.unset();
    if (done) return;
    yield decoder.decode(value, { stream: true });
  }
}

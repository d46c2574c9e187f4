/** A hub over the network: where sending begins, and where mailboxes are found. */

import { DEFAULT_URL } from "./address.js";
import { answered, checkToken, expect, json, type Terms } from "./exchange.js";
import { parcelOf, type Outgoing } from "./message.js";
import { HubPlaces } from "./places.js";
import { invalidRequest } from "./problem.js";
import { Recipient } from "./recipient.js";
import { retriesOf, type Retries } from "./retries.js";

export interface HubOptions {
  /** Sent with each request as `Authorization: Bearer …`. Keep it out of web pages: they use tickets for `live`. */
  token?: string;
  /** Seconds for an answer, beyond those that a peek is to wait at the hub; 30 unless given. */
  timeout?: number;
  /** How often a call is repeated, or all of how it is. Each repetition is safe. */
  retries?: number | Partial<Retries>;
  /** In place of the global ones: for proxies, certificates and tests. */
  fetch?: typeof globalThis.fetch;
  WebSocket?: typeof globalThis.WebSocket;
}

export interface SendOptions {
  /** The id of a batch: what is newly stored becomes items of it. */
  batch?: string;
  /** `"accepted"`: resolve as soon as the hub's backplane has the messages, before they are stored. */
  accept?: "stored" | "accepted";
  signal?: AbortSignal;
}

/** The numbers of what was newly stored in one partition. */
export interface StoredRange {
  partition: number;
  first_sequence_number: number;
  last_sequence_number: number;
}

/** Where messages of a send stand in the log of the backplane. */
export interface LogPosition {
  partition: number;
  position: number;
  messages: number;
}

/** All messages of a send are stored, unless `stored` says otherwise: `accepted + duplicates` is their number, one for each recipient. */
export interface Receipt {
  accepted: number;
  /** Stored before, by an earlier send or by an attempt of this one whose answer was lost. */
  duplicates: number;
  partitions: StoredRange[];
  /** How many of the accepted ones the hub keeps aside until their `visible_at`; left out when there are none. */
  delayed?: number;
  /** `false`: those accepted are in the backplane, and will be stored. Left out when they are stored. */
  stored?: false;
  /** Where they are in the backplane, if they are not known to be stored. */
  positions?: LogPosition[];
  /** The ids of the messages, in the order sent. */
  ids: string[];
}

/** Opens a live connection in place of a token, for a short time. */
export interface Ticket {
  ticket: string;
  expires_at: string;
}

/** A hub at this address, or at these, in an array or with commas between them. Nothing is asked of it yet. */
export function connect(url: string | readonly string[] = DEFAULT_URL, options: HubOptions = {}): Hub {
  return new Hub(termsOf(url, options));
}

export class Hub {
  readonly #terms: Terms;

  /** Programs say `connect(url)`. */
  constructor(terms: Terms) {
    this.#terms = terms;
  }

  /** Of several addresses the one that is asked now. */
  get url(): string {
    return this.#terms.url;
  }

  /**
   * Store a message, or many: all of them, or nothing. It resolves when they are durable.
   * Messages without an id get one before the first attempt, so a repetition stores nothing twice.
   */
  async send(
    messages: Outgoing | Iterable<Outgoing>,
    { batch, accept, signal }: SendOptions = {},
  ): Promise<Receipt> {
    const { ids, body } = parcelOf(messages);
    const headers = {
      Accept: "application/json",
      "Content-Type": "application/json",
      ...(batch === undefined ? {} : { "Restante-Batch": batch }),
      ...(accept === undefined ? {} : { "Restante-Accept": accept }),
    };
    const request = { method: "POST", path: "/v1/messages", headers, body } as const;
    const { answer } = await answered(this.#terms, () => request, signal);
    return { ...json<Omit<Receipt, "ids">>(this.#terms, expect(this.#terms, answer, 201, 202)), ids };
  }

  /** One mailbox. `Data` is what the JSON of its messages is; nothing checks it. */
  recipient<Data = unknown>(name: string): Recipient<Data> {
    return new Recipient<Data>(this.#terms, name, () => this.ticket(name));
  }

  /** A ticket for the live connections of a recipient, for a program that has no token, such as a web page. */
  async ticket(recipient: string, { signal }: { signal?: AbortSignal } = {}): Promise<Ticket> {
    const headers = { Accept: "application/json", "Content-Type": "application/json" };
    const request = { method: "POST", path: "/v1/tickets", headers, body: JSON.stringify({ recipient }) } as const;
    const { answer } = await answered(this.#terms, () => request, signal);
    return json(this.#terms, expect(this.#terms, answer, 201));
  }
}

function termsOf(url: string | readonly string[], options: HubOptions): Terms {
  const { token, timeout = 30 } = options;
  checkToken(token);
  if (!(timeout > 0 && timeout < 1e6)) throw invalidRequest(`timeout is a number of seconds above 0, not ${timeout}.`);
  const places = new HubPlaces(url);
  return {
    places,
    get url(): string {
      return places.url;
    },
    token,
    timeout,
    retries: retriesOf(options.retries),
    // A browser's fetch wants to be called as a function, not as a method.
    fetch: options.fetch ?? ((...request) => globalThis.fetch(...request)),
    socket: options.WebSocket ?? globalThis.WebSocket,
  };
}

/** The frames of a WebSocket, one after another. */

import { unavailable } from "./problem.js";
import type { Terms } from "./exchange.js";

/** A WebSocket cannot be held back, so what was not read yet is bounded here: beyond it, the connection is closed. */
const UNREAD_FRAMES_MAX = 1_024;
const UNREAD_CHARACTERS_MAX = 4 * 1024 * 1024;

/** There was no connection; a WebSocket does not say why. */
export class SocketRefused extends Error {}

/**
 * Ends when the connection ends, with all that came before. A reader that is so slow that too much waits gets what
 * waits; then it ends, too, and the next connection goes on from there.
 */
export async function* socketFrames(terms: Terms, url: string, signal?: AbortSignal): AsyncGenerator<string, void, void> {
  signal?.throwIfAborted();
  const Socket = terms.socket;
  if (Socket === undefined) throw new SocketRefused("There is no WebSocket here.");
  const socket = new Socket(url);
  const inbox = new Inbox(() => socket.close());
  const refused = new SocketRefused(`The hub at ${terms.url} opened no WebSocket.`);
  const timer = setTimeout(() => inbox.fail(refused), 1_000 * terms.timeout);
  const aborted = (): void => inbox.fail(signal?.reason);
  let opened = false;
  socket.onopen = () => {
    opened = true;
    clearTimeout(timer);
  };
  socket.onmessage = ({ data }: MessageEvent<unknown>) => inbox.put(data);
  // Some fire only one of the two when nothing answers.
  socket.onerror = socket.onclose = () => (opened ? inbox.end() : inbox.fail(refused));
  signal?.addEventListener("abort", aborted, { once: true });
  try {
    yield* inbox.frames();
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", aborted);
    socket.onmessage = null;
    socket.close();
  }
}

/** What came and was not read yet. */
class Inbox {
  readonly #overflow: () => void;
  #unread: string[] = [];
  #characters = 0;
  #ended = false;
  #error: unknown;
  #wake: () => void = () => undefined;

  constructor(overflow: () => void) {
    this.#overflow = overflow;
  }

  put(data: unknown): void {
    if (this.#ended) return;
    if (typeof data !== "string") return this.fail(unavailable("The hub sent a binary frame. Is it of this version?"));
    this.#unread.push(data);
    this.#characters += data.length;
    if (this.#unread.length >= UNREAD_FRAMES_MAX || this.#characters >= UNREAD_CHARACTERS_MAX) {
      this.end();
      this.#overflow();
    }
    this.#wake();
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  fail(error: unknown): void {
    this.#error ??= error;
    this.end();
  }

  async *frames(): AsyncGenerator<string, void, void> {
    for (;;) {
      const some = this.#unread;
      this.#unread = [];
      for (const frame of some) {
        if (this.#error !== undefined) throw this.#error;
        this.#characters -= frame.length;
        yield frame;
      }
      if (this.#unread.length) continue;
      if (this.#error !== undefined) throw this.#error;
      if (this.#ended) return;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}

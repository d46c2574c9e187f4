/** How patient a client is, and how it waits. */

import { invalidRequest } from "./problem.js";

/** How a call is tried again that did not reach the hub, got no answer in time, or was told to come later. */
export interface Retries {
  /** How often after the first attempt; 0 is never. */
  times: number;
  /** No attempt begins later than so many seconds after the first. */
  seconds: number;
  /** Seconds before the second attempt. The pause doubles each time, less up to half of it, by chance. */
  firstPause: number;
  /** Seconds. A hub that names a time itself is waited for as it says. */
  longestPause: number;
}

const USUAL: Retries = { times: 5, seconds: 60, firstPause: 0.1, longestPause: 5 };

export function retriesOf(given: number | Partial<Retries> = {}): Retries {
  const retries = { ...USUAL, ...(typeof given === "number" ? { times: given } : given) };
  for (const [name, value] of Object.entries(retries)) {
    if (!Number.isFinite(value) || value < 0) throw invalidRequest(`retries: ${name} is a number from 0, not ${value}.`);
  }
  return retries;
}

/** Seconds to wait after so many failures in a row. */
export function backOff(failures: number, retries: Retries): number {
  const doubled = retries.firstPause * 2 ** Math.min(failures - 1, 62);
  return Math.min(doubled, retries.longestPause) * (1 - Math.random() / 2);
}

/** Resolves after so many seconds; rejects with the signal's reason as soon as that is aborted. */
export function pause(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const aborted = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }, 1_000 * seconds);
    signal?.addEventListener("abort", aborted, { once: true });
  });
}

/** A signal that this program aborts: by itself, after some seconds, or when the caller's signal is aborted. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #follow = (): void => this.#controller.abort(this.#outer?.reason);
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Whether the time was over. */
  passed = false;

  constructor(outer?: AbortSignal) {
    this.#outer = outer;
    if (outer?.aborted) this.#follow();
    outer?.addEventListener("abort", this.#follow, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Abort after so many seconds from now. What was set before no longer counts. */
  set(seconds: number): void {
    this.unset();
    this.#timer = setTimeout(() => {
      this.passed = true;
      this.#controller.abort(new Error(`it took longer than ${seconds} s`));
    }, 1_000 * seconds);
  }

  unset(): void {
    clearTimeout(this.#timer);
  }

  /** It is over, with whatever is still under way. */
  end(): void {
    this.unset();
    this.#outer?.removeEventListener("abort", this.#follow);
    this.#controller.abort();
  }
}

/** Where a hub is reached: at one address, or at several of its nodes, each of which takes every call. */

import { addressOf } from "./address.js";
import { invalidRequest } from "./problem.js";

const LOOPBACK = /^((.+\.)?localhost|127(\.\d{1,3}){3}|\[::1\])$/;
/** Addresses to listen on, not to go to. */
const NOWHERE = /^(0\.0\.0\.0|\[::\])$/;
/** The addresses that were warned of. */
const warned = new Set<string>();

export class HubPlaces {
  readonly #own: readonly string[];
  #turn: number;

  constructor(given: string | readonly string[]) {
    const named = typeof given === "string" ? given.split(",") : given;
    if (!named.length) throw invalidRequest("Give the address of a hub.");
    this.#own = [...new Set(named.map((one) => addressOf(one.trim())))];
    this.#turn = Math.floor(Math.random() * this.#own.length);
  }

  /** The address that is asked now. */
  get url(): string {
    return this.#own[this.#turn % this.#own.length]!;
  }

  /** This one does not answer, or refuses for now: the next one is asked. */
  passOn(place: string): void {
    if (place === this.url) this.#turn += 1;
  }

  /** The address of an owner that a node named, if it can be meant for this program, and a token is as safe there. */
  usable(named: unknown): string | undefined {
    const found = typeof named === "string" ? parsed(named) : undefined;
    if (found === undefined) return undefined;
    const [own, other] = [new URL(this.url), new URL(found)];
    if (NOWHERE.test(other.hostname) || (LOOPBACK.test(other.hostname) && !LOOPBACK.test(own.hostname))) return undefined;
    return own.protocol === "https:" && other.protocol !== "https:" ? undefined : found;
  }
}

/** Warn, once of each address, if a token would go there for everybody on the way to read. */
export function warnOfPlaintext(place: string): void {
  const { protocol, hostname } = new URL(place);
  if (protocol !== "http:" || LOOPBACK.test(hostname) || warned.has(place)) return;
  warned.add(place);
  console.warn(`restante: the token goes to ${place} without encryption: who listens on the way can use it. Use https://.`);
}

function parsed(address: string): string | undefined {
  try {
    return addressOf(address);
  } catch {
    return undefined;
  }
}

/** Where a hub is, and how its routes are spelled. */

import { invalidRequest } from "./problem.js";

export const DEFAULT_URL = "http://127.0.0.1:8470";
const EXAMPLE = `like ${DEFAULT_URL} or https://hub.example.org`;

/** A checked address, without a slash at its end. `host:port` is one, too. */
export function addressOf(address: string): string {
  const url = parsed(/^[a-z][a-z0-9+.-]*:\/\//i.test(address) ? address : `http://${address}`);
  // The address is not repeated here: it holds a secret.
  if (url.username || url.password) throw invalidRequest("The address of a hub must not hold a user and a password: give a token.");
  if (url.protocol !== "http:" && url.protocol !== "https:") throw invalidRequest(`Give an address ${EXAMPLE}.`);
  if (url.search || url.hash) throw invalidRequest("The address of a hub has no ? and no #. Leave out what follows them.");
  return url.origin + url.pathname.replace(/\/+$/, "");
}

/** A name as one segment of a path. */
export function segment(name: string, what: string): string {
  if (typeof name !== "string" || !name.trim()) throw invalidRequest(`A ${what} is text that is not blank.`);
  // In an address these mean folders, percent-encoded too; the request would reach another route.
  if (name === "." || name === "..") throw invalidRequest(`A ${what} cannot be "${name}": an address cannot spell it.`);
  try {
    return encodeURIComponent(name);
  } catch (error) {
    throw invalidRequest(`A ${what} is Unicode text, and this is not: ${error}.`);
  }
}

export type Query = readonly (readonly [name: string, value: string])[];

/** A query of what is given; a list is given once for each entry. */
export function queryOf(parts: Record<string, string | number | readonly string[] | undefined>): Query {
  return Object.entries(parts).flatMap(([name, value]) => {
    if (value === undefined) return [];
    return Array.isArray(value) ? value.map((each: string) => [name, each] as const) : [[name, String(value)] as const];
  });
}

export function target(path: string, query: Query): string {
  const text = new URLSearchParams(query.map(([name, value]) => [name, value])).toString();
  return text ? `${path}?${text}` : path;
}

function parsed(address: string): URL {
  try {
    return new URL(address);
  } catch {
    throw invalidRequest(`${JSON.stringify(address)} is not the address of a hub. Give one ${EXAMPLE}.`);
  }
}

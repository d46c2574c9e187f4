/** The hubs that the tests run against: real ones, which the program that starts these tests has started. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { connect, RestanteError, type Hub, type HubOptions } from "restante";

function given(name: string): string {
  const value = process.env[name];
  assert.ok(value, `${name} says where the hub is; tests/clients/test_typescript.py sets it`);
  return value;
}

/** Asks for no token. */
export const OPEN = given("RESTANTE_TEST_OPEN");
/** Asks for tokens. */
export const GUARDED = given("RESTANTE_TEST_GUARDED");
export const TOKEN = given("RESTANTE_TEST_TOKEN");

export const QUICK = { times: 20, seconds: 240, firstPause: 0.001, longestPause: 0.05 };

export function hub(url: string = OPEN, options: HubOptions = {}): Hub {
  return connect(url, { retries: QUICK, ...options });
}

/** An address where nothing answers. */
export async function nobody(): Promise<string> {
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  await once(server.close(), "close");
  return `127.0.0.1:${port}`;
}

let made = 0;

/** A mailbox that no other test uses. */
export function fresh(): string {
  made += 1;
  return `mailbox ${process.pid}/${made} ü`;
}

/** The error that the call ends with. */
export async function refused(call: Promise<unknown>): Promise<RestanteError> {
  const error = await call.then(() => undefined, (reason: unknown) => reason);
  assert.ok(error instanceof RestanteError, `a RestanteError, not ${error}`);
  return error;
}

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Message } from "restante";
import { fresh, GUARDED, hub, refused, TOKEN } from "./hubs.js";
import { CuttingProxy } from "./proxy.js";

/** What passed a proxy: the path, its ticket, and whether a token or an upgrade was asked for. */
function asked({ heads }: CuttingProxy) {
  return heads.map((head) => {
    const { pathname, searchParams } = new URL(head.split(" ")[1] ?? "", GUARDED);
    const has = (name: string): boolean => new RegExp(`^${name}:`, "im").test(head);
    return { path: pathname, ticket: searchParams.get("ticket"), token: has("authorization"), upgrade: has("upgrade") };
  });
}

async function proxied(context: TestContext): Promise<CuttingProxy> {
  const proxy = await CuttingProxy.open(GUARDED);
  context.after(() => proxy.close());
  return proxy;
}

/** What the server of a page does: it has the token, and gives tickets to the page. */
async function ticketFor(recipient: string): Promise<string> {
  return (await hub(GUARDED, { token: TOKEN }).ticket(recipient)).ticket;
}

async function say(recipient: string, ...numbers: number[]): Promise<void> {
  await hub(GUARDED, { token: TOKEN }).send(numbers.map((data) => ({ recipient, data })));
}

/** The data of messages until the last one; `between` hears of each. */
async function until(last: number, live: AsyncIterable<Message>, between: (data: unknown) => unknown = () => undefined) {
  const seen: unknown[] = [];
  for await (const { data } of live) {
    seen.push(data);
    if (data === last) break;
    await between(data);
  }
  return seen;
}

test("a ticket is asked for with the token, for one recipient, and lasts a minute", async () => {
  const asked = Date.now();
  const { ticket, expires_at } = await hub(GUARDED, { token: TOKEN }).ticket("ada");
  assert.match(ticket, /^rsttk_[\w-]{40,}$/);
  const given = new Date(expires_at).getTime() - 60_000;
  assert.ok(asked <= given + 1_000 && given <= Date.now(), expires_at);
  assert.equal((await refused(hub(GUARDED).ticket("ada"))).code, "unauthenticated");
  assert.equal((await refused(hub(GUARDED, { token: TOKEN }).ticket(""))).code, "invalid_request");
});

for (const transport of ["auto", "websocket", "events"] as const) {
  test(`${transport}: a page without a token follows by tickets, a fresh one for each connection`, async (context) => {
    const proxy = await proxied(context);
    const recipient = fresh();
    const given: string[] = [];
    const ticket = async (): Promise<string> => {
      given.push(await ticketFor(recipient));
      return given.at(-1) ?? "";
    };
    await say(recipient, 1);
    const live = hub(proxy.url).recipient(recipient).live({ after: 0, transport, ticket });
    const seen = await until(3, live, async (data) => {
      proxy.cut();
      await say(recipient, Number(data) + 1);
    });
    assert.deepEqual(seen, [1, 2, 3]);
    const requests = asked(proxy);
    assert.deepEqual(requests.map((one) => one.ticket), given);
    assert.equal(new Set(given).size, given.length);
    assert.ok(given.length >= 3);
    assert.ok(requests.every((one) => one.upgrade === (transport !== "events") && !one.token));
  });
}

test("a WebSocket of a program with a token asks for a ticket, and carries no token", async (context) => {
  const proxy = await proxied(context);
  const recipient = fresh();
  await say(recipient, 1);
  const live = hub(proxy.url, { token: TOKEN }).recipient(recipient).live({ after: 0, transport: "websocket" });
  assert.deepEqual(await until(1, live), [1]);
  const [first, second] = asked(proxy);
  assert.deepEqual([first?.path, first?.ticket, first?.token], ["/v1/tickets", null, true]);
  assert.deepEqual([second?.ticket?.slice(0, 6), second?.token, second?.upgrade], ["rsttk_", false, true]);
});

test("a program with a token and without a wish follows by events, and asks for no ticket", async (context) => {
  const proxy = await proxied(context);
  const recipient = fresh();
  await say(recipient, 1);
  assert.deepEqual(await until(1, hub(proxy.url, { token: TOKEN }).recipient(recipient).live({ after: 0 })), [1]);
  assert.deepEqual(asked(proxy).map(({ ticket, token, upgrade }) => [ticket, token, upgrade]), [[null, true, false]]);
});

for (const [what, ticket] of [
  ["made up", () => "made up"],
  ["of another recipient", () => ticketFor("somebody else")],
] as const) {
  test(`a ticket that is ${what} is raised from the loop`, async () => {
    const error = await refused(until(1, hub(GUARDED).recipient(fresh()).live({ ticket })));
    assert.deepEqual([error.code, error.status], ["unauthenticated", 401]);
  });
}

test("a ticket that cannot be had is asked for again", async (context) => {
  const proxy = await proxied(context);
  const recipient = fresh();
  await say(recipient, 1);
  let tried = 0;
  const ticket = async (): Promise<string> => {
    tried += 1;
    if (tried === 1 || tried === 3) throw new TypeError("the page is offline");
    return ticketFor(recipient);
  };
  const live = hub(proxy.url).recipient(recipient).live({ after: 0, ticket });
  const seen = await until(2, live, async () => {
    proxy.cut();
    await say(recipient, 2);
  });
  assert.deepEqual([seen, tried], [[1, 2], 4]);
});

test("a ticket that can never be had is an error soon", async () => {
  const ticket = (): Promise<string> => Promise.reject(new TypeError("the page is offline"));
  const error = await refused(until(1, hub(GUARDED, { retries: 1 }).recipient("a").live({ ticket })));
  assert.deepEqual([error.code, error.detail], ["unavailable", "There is no ticket: the page is offline."]);
});

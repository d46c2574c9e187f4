import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Message } from "restante";
import { fresh, GUARDED, hub, refused, TOKEN } from "./hubs.js";
import { TicketDesk } from "./ticket_desk.js";

async function ticketDesk(context: TestContext): Promise<TicketDesk> {
  const desk = await TicketDesk.open(GUARDED, TOKEN);
  context.after(() => desk.close());
  return desk;
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

test("a ticket is asked for with the token", async (context) => {
  const desk = await ticketDesk(context);
  assert.deepEqual(await hub(desk.url, { token: TOKEN }).ticket(), { ticket: "ticket 1&", expires_at: "2999-01-01T00:00:00Z" });
  assert.equal((await refused(hub(desk.url).ticket())).code, "unauthenticated");
});

for (const transport of ["auto", "websocket", "events"] as const) {
  test(`${transport}: a page without a token follows by tickets, a fresh one for each connection`, async (context) => {
    const desk = await ticketDesk(context);
    const recipient = fresh();
    await say(recipient, 1);
    const live = hub(desk.url).recipient(recipient).live({ after: 0, transport, ticket: async () => desk.give() });
    const seen = await until(3, live, async (data) => {
      desk.cut();
      await say(recipient, Number(data) + 1);
    });
    assert.deepEqual(seen, [1, 2, 3]);
    assert.deepEqual(desk.asked.map(({ ticket }) => ticket), desk.given);
    assert.ok(desk.asked.length >= 3);
    assert.ok(desk.asked.every((asked) => asked.upgrade === (transport !== "events") && asked.authorization === undefined));
  });
}

test("a WebSocket of a program with a token asks for a ticket, and carries no token", async (context) => {
  const desk = await ticketDesk(context);
  const recipient = fresh();
  await say(recipient, 1);
  const live = hub(desk.url, { token: TOKEN }).recipient(recipient).live({ after: 0, transport: "websocket" });
  assert.deepEqual(await until(1, live), [1]);
  assert.deepEqual(desk.asked.map(({ path, ticket }) => [path === "/v1/tickets", ticket]), [[true, null], [false, "ticket 1&"]]);
  assert.equal(desk.asked[1]?.authorization, undefined);
});

test("a program with a token and without a wish follows by events, and asks for no ticket", async (context) => {
  const desk = await ticketDesk(context);
  const recipient = fresh();
  await say(recipient, 1);
  assert.deepEqual(await until(1, hub(desk.url, { token: TOKEN }).recipient(recipient).live({ after: 0 })), [1]);
  assert.deepEqual(desk.given, []);
});

test("a ticket that is not valid is raised from the loop", async (context) => {
  const desk = await ticketDesk(context);
  const error = await refused(until(1, hub(desk.url).recipient("a").live({ ticket: () => "made up" })));
  assert.deepEqual([error.code, error.status], ["unauthenticated", 401]);
});

test("a ticket that cannot be had is asked for again", async (context) => {
  const desk = await ticketDesk(context);
  const recipient = fresh();
  await say(recipient, 1);
  let asked = 0;
  const ticket = async (): Promise<string> => {
    asked += 1;
    if (asked === 1 || asked === 3) throw new TypeError("the page is offline");
    return desk.give();
  };
  const live = hub(desk.url).recipient(recipient).live({ after: 0, ticket });
  const seen = await until(2, live, async () => {
    desk.cut();
    await say(recipient, 2);
  });
  assert.deepEqual([seen, asked], [[1, 2], 4]);
});

test("a ticket that can never be had is an error soon", async () => {
  const ticket = (): Promise<string> => Promise.reject(new TypeError("the page is offline"));
  const error = await refused(until(1, hub(GUARDED, { retries: 1 }).recipient("a").live({ ticket })));
  assert.deepEqual([error.code, error.detail], ["unavailable", "There is no ticket: the page is offline."]);
});

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { fresh, hub, nobody, OPEN, QUICK, refused } from "./hubs.js";
import { CuttingProxy } from "./proxy.js";
import { json, problem, scripted } from "./scripted.js";

const RECEIPT = json(201, { accepted: 1, duplicates: 0, partitions: [] });

async function cuttingProxy(context: TestContext): Promise<CuttingProxy> {
  const proxy = await CuttingProxy.open(OPEN);
  context.after(() => proxy.close());
  return proxy;
}

async function server(context: TestContext, ...answers: Parameters<typeof scripted>) {
  const started = await scripted(...answers);
  context.after(() => started.close());
  return started;
}

test("a send whose answer was lost is repeated with the ids of the first attempt, and stored once", async (context) => {
  const proxy = await cuttingProxy(context);
  const recipient = fresh();
  proxy.cutAfter(1);
  const receipt = await hub(proxy.url).send([{ recipient, data: 1 }, { recipient, data: 2 }]);
  assert.deepEqual([receipt.accepted, receipt.duplicates], [0, 2]);
  const bundle = await hub().recipient(recipient).peek();
  assert.deepEqual(bundle?.messages.map((message) => message.id), receipt.ids);
});

test("a send that did not get through is repeated", async (context) => {
  const proxy = await cuttingProxy(context);
  proxy.cutBefore(3);
  assert.equal((await hub(proxy.url).send({ recipient: fresh(), data: 1 })).accepted, 1);
  assert.ok(proxy.connections >= 4);
});

test("a dequeue whose answer was lost counts as done", async (context) => {
  const proxy = await cuttingProxy(context);
  const recipient = fresh();
  await hub().send([{ recipient, data: 1 }, { recipient, data: 2 }]);
  const bundle = await hub(proxy.url).recipient(recipient).peek();
  proxy.cutAfter(1);
  assert.deepEqual(await bundle?.dequeue(), { bundle_id: bundle?.bundle_id, messages: 2 });
  assert.equal(await hub().recipient(recipient).peek(), null);
});

test("when nobody knows whether a send was stored, the error says so", async (context) => {
  const proxy = await cuttingProxy(context);
  const recipient = fresh();
  const message = { recipient, id: "mine", data: 1 };
  proxy.cutAfter(1);
  const error = await refused(hub(proxy.url, { retries: 0 }).send(message));
  assert.deepEqual([error.code, error.retriable], ["outcome_unknown", true]);
  assert.equal((await hub().send(message)).duplicates, 1);
});

test("a hub that is not there is said at once, and was not reached", async () => {
  const address = await nobody();
  const error = await refused(hub(address, { retries: 0 }).send({ recipient: fresh(), data: 1 }));
  assert.deepEqual([error.code, error.retriable, error.status], ["unavailable", true, 0]);
  assert.match(error.detail, /ECONNREFUSED.*restante serve/);
  const tried = await refused(hub(address, { retries: { ...QUICK, times: 2 } }).recipient("a").peek());
  assert.match(tried.detail, /tried 3 times/);
});

test("a hub that says come later is asked again when it says", async (context) => {
  const later = problem(429, "overloaded", true, { "retry-after": "1" });
  const { url, requests } = await server(context, later, problem(503, "unavailable", true), RECEIPT);
  const pauses = context.mock.method(globalThis, "setTimeout").mock;
  assert.equal((await hub(url).send({ recipient: "a", data: 1 })).accepted, 1);
  assert.ok(pauses.calls.some(({ arguments: [, milliseconds] }) => milliseconds === 1_000));
  assert.equal(requests.length, 3);
});

test("a send that is content with the backplane says so, and hears where its messages are", async (context) => {
  const positions = [{ partition: 3, position: 41, messages: 1 }];
  const told = { accepted: 1, duplicates: 0, partitions: [], stored: false, positions };
  const { url, requests } = await server(context, json(202, told), RECEIPT);
  const receipt = await hub(url).send({ recipient: "a", data: 1 }, { accept: "accepted" });
  assert.deepEqual([receipt.stored, receipt.positions], [false, positions]);
  assert.equal((await hub(url).send({ recipient: "a", data: 1 })).stored, undefined);
  assert.deepEqual(requests.map(({ headers }) => headers["restante-accept"]), ["accepted", undefined]);
});

test("patience ends", async (context) => {
  const { url, requests } = await server(context, problem(503, "unavailable", true));
  const error = await refused(hub(url, { retries: { ...QUICK, times: 2 } }).recipient("a").explain());
  assert.deepEqual([error.code, error.status, error.correlationId], ["unavailable", 503, "abc"]);
  assert.equal(requests.length, 3);
  const slow = { ...QUICK, firstPause: 10, longestPause: 10, seconds: 1 };
  assert.equal((await refused(hub(url, { retries: slow }).recipient("a").explain())).code, "unavailable");
  assert.equal(requests.length, 4);
});

test("what the hub refuses for good is not repeated", async (context) => {
  for (const [status, code] of [[400, "invalid_request"], [409, "message_conflict"], [500, "internal"], [507, "storage_full"], [503, "partly_stored"]] as const) {
    const { url, requests } = await server(context, problem(status, code, false), RECEIPT);
    assert.equal((await refused(hub(url).send({ recipient: "a", data: 1 }))).code, code);
    assert.equal(requests.length, 1, code);
  }
});

test("a proxy whose hub is down is tried again, and what is no hub is said", async (context) => {
  const gateway = await server(context, json(502, "bad gateway"), RECEIPT);
  assert.equal((await hub(gateway.url).send({ recipient: "a", data: 1 })).accepted, 1);
  const other = await server(context, json(404, "no such page"));
  const error = await refused(hub(other.url).recipient("a").peek());
  assert.match(error.detail, /is no hub/);
  const words = await server(context, (response) => response.end("hello"));
  assert.match((await refused(hub(words.url).recipient("a").peek())).detail, /cannot be read/);
});

test("an answer that does not come in time is not waited for", async (context) => {
  const { url } = await server(context, () => undefined);
  let attempts = 0;
  const counted: typeof fetch = (...request) => ((attempts += 1), fetch(...request));
  const options = { timeout: 0.05, retries: { ...QUICK, times: 1 }, fetch: counted };
  assert.equal((await refused(hub(url, options).send({ recipient: "a", data: 1 }))).code, "outcome_unknown");
  assert.equal(attempts, 2);
  assert.equal((await refused(hub(url, options).recipient("a").explain())).code, "unavailable");
});

test("the token goes with each request, and is in no error", async (context) => {
  const { url, requests } = await server(context, problem(401, "unauthenticated", false));
  const error = await refused(hub(url, { token: "rst_secret" }).recipient("a").peek());
  assert.equal(requests[0]?.headers.authorization, "Bearer rst_secret");
  assert.ok(!`${error.stack}${JSON.stringify(error)}`.includes("rst_secret"));
});

test("a pause between attempts can be aborted", async (context) => {
  const { url } = await server(context, problem(503, "unavailable", true, { "retry-after": "30" }));
  const controller = new AbortController();
  const waiting = hub(url, { retries: { seconds: 60 } }).send({ recipient: "a", data: 1 }, { signal: controller.signal });
  setTimeout(() => controller.abort(new Error("enough")), 50);
  await assert.rejects(waiting, { message: "enough" });
});

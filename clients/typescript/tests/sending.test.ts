import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, type OutgoingMessage } from "restante";
import { fresh, GUARDED, hub, refused, TOKEN } from "./hubs.js";

const UUID_7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

test("one message is sent, and gets an id before it is sent", async () => {
  const recipient = fresh();
  const receipt = await hub().send({ recipient, data: { total: 3 } });
  assert.equal(receipt.accepted, 1);
  assert.equal(receipt.duplicates, 0);
  assert.equal(receipt.partitions.length, 1);
  assert.match(receipt.ids[0] ?? "", UUID_7);
  const bundle = await hub().recipient(recipient).peek();
  assert.deepEqual(bundle?.messages.map(({ id, data }) => [id, data]), [[receipt.ids[0], { total: 3 }]]);
});

test("JSON, text and bytes come back as what they were", async () => {
  const recipient = fresh();
  const bytes = Uint8Array.from({ length: 100_000 }, (_, index) => (index * 7) % 256);
  await hub().send([
    { recipient, data: null },
    { recipient, data: [1, "zwei", { three: 3 }] },
    { recipient, data: "a string" },
    { recipient, text: "grüße 🐦\n" },
    { recipient, bytes },
    { recipient, bytes: bytes.buffer.slice(0, 3), media_type: "application/pdf" },
    { recipient, bytes: new Uint8Array(0) },
  ]);
  const messages = (await hub().recipient(recipient).peek())?.messages ?? [];
  assert.deepEqual(messages.slice(0, 3).map((message) => message.data), [null, [1, "zwei", { three: 3 }], "a string"]);
  assert.equal(messages[3]?.text, "grüße 🐦\n");
  assert.equal(messages[3]?.media_type, "text/plain");
  assert.deepEqual(messages[4]?.bytes, bytes);
  assert.deepEqual([messages[5]?.media_type, messages[5]?.bytes], ["application/pdf", bytes.slice(0, 3)]);
  assert.deepEqual(messages[6]?.bytes, new Uint8Array(0));
});

test("all fields of a message travel", async () => {
  const recipient = fresh();
  const sent = {
    recipient,
    id: "order 7",
    origin: "shop",
    kind: "order",
    document_type: "order v1",
    weight: 5,
    bundleable: false,
    properties: { trace: "x1" },
  };
  await hub().send({ ...sent, data: 1, expires_at: new Date("2999-01-02T03:04:05.678Z") });
  const [message] = (await hub().recipient(recipient).peek())?.messages ?? [];
  assert.deepEqual({ ...message, ...sent }, message);
  assert.equal(new Date(message?.expires_at ?? "").getTime(), Date.UTC(2999, 0, 2, 3, 4, 5, 678));
  assert.equal(message?.state, "waiting");
  assert.ok((message?.sequence_number ?? 0) > 0);
});

test("many are sent in one call, out of anything that can be iterated, in order", async () => {
  const recipient = fresh();
  function* letters(): Generator<OutgoingMessage> {
    for (let number = 0; number < 2_500; number += 1) yield { recipient, data: number };
  }
  const receipt = await hub().send(letters());
  assert.equal(receipt.accepted, 2_500);
  assert.equal(new Set(receipt.ids).size, 2_500);
  const seen: unknown[] = [];
  for await (const bundle of hub().recipient(recipient).collect({ idle: 0 })) {
    seen.push(...bundle.messages.map((message) => message.data));
  }
  assert.deepEqual(seen, Array.from({ length: 2_500 }, (_, number) => number));
});

test("the same id again is a duplicate, and with other content a conflict", async () => {
  const recipient = fresh();
  await hub().send({ recipient, id: "a", data: 1 });
  assert.equal((await hub().send({ recipient, id: "a", data: 1 })).duplicates, 1);
  const error = await refused(hub().send({ recipient, id: "a", data: 2 }));
  assert.equal(error.code, "message_conflict");
  assert.equal(error.status, 409);
  assert.equal(error.retriable, false);
});

test("a refused send names each faulty message, and stores nothing", async () => {
  const recipient = fresh();
  const error = await refused(hub().send([{ recipient, data: 1 }, { recipient: " ", data: 2 }, { recipient, data: 3, weight: 0 }]));
  assert.equal(error.code, "invalid_message");
  assert.deepEqual(error.faults.map(({ index, field }) => [index, field]), [[1, "recipient"], [2, "weight"]]);
  assert.ok(error.detail && error.message.includes(error.detail));
  assert.ok(error.correlationId, "the id finds the call in the hub's log");
  assert.equal(await hub().recipient(recipient).peek(), null);
});

test("what JavaScript would quietly make something else of is refused before it is sent", async () => {
  const recipient = fresh();
  const lost = { recipient, data: undefined } as unknown as OutgoingMessage;
  const wrong: OutgoingMessage[] = [
    lost,
    { recipient, data: new Uint8Array(2) },
    { recipient, data: () => 1 },
    { recipient, data: { nested: 1n } },
    { recipient, data: 1, expires_at: new Date(Number.NaN) },
  ];
  for (const message of wrong) {
    const error = await refused(hub().send([{ recipient, data: 0 }, message]));
    assert.equal(error.code, "invalid_message");
    assert.equal(error.status, 0, "the hub was not asked");
  }
  assert.equal(await hub().recipient(recipient).peek(), null);
});

test("one message goes to several recipients, under the same id", async () => {
  const recipients = [fresh(), fresh()];
  const receipt = await hub().send([{ recipients, text: "to both" }, { recipient: recipients[0] ?? "", text: "to one" }]);
  assert.deepEqual([receipt.accepted, receipt.ids.length], [3, 2]);
  const seen = await Promise.all(recipients.map((name) => hub().recipient(name).peek()));
  const told = seen.map((bundle) => bundle?.messages.map(({ id, text }) => [id, text]));
  const shared = [receipt.ids[0], "to both"];
  assert.deepEqual(told, [[shared, [receipt.ids[1], "to one"]], [shared]]);
});

test("a message is seen when it is due, and an empty mailbox says so until then", async () => {
  const recipient = fresh();
  const mailbox = hub().recipient(recipient);
  const receipt = await hub().send({ recipient, text: "far", visible_at: "2090-01-31T12:00:00Z" });
  assert.deepEqual([receipt.accepted, receipt.delayed], [1, 1]);
  assert.deepEqual((await mailbox.explain()).not_yet_visible, 1);
  await hub().send({ recipient, text: "soon", visible_at: new Date(Date.now() + 300) });
  let bundle;
  do bundle = await mailbox.peek({ wait: 20 });
  while (bundle === null);
  assert.deepEqual(bundle.messages.map(({ text }) => text), ["soon"]);
  await bundle.dequeue();
  const { reason, not_yet_visible } = await mailbox.explain();
  assert.deepEqual([reason, not_yet_visible], ["not_yet_visible", 1]);
  const broken = await refused(hub().send({ recipient, text: "x", visible_at: new Date("no time") }));
  assert.match(broken.message, /visible_at is no valid time/);
});

test("a send may name a batch", async () => {
  const error = await refused(hub().send({ recipient: fresh(), data: 1 }, { batch: "0198c5a2-0000-7000-8000-000000000000" }));
  assert.equal(error.code, "batch_unknown");
});

test("a hub without a backplane does not merely accept", async () => {
  const message = { recipient: fresh(), data: 1 };
  assert.equal((await hub().send(message, { accept: "stored" })).accepted, 1);
  const error = await refused(hub().send(message, { accept: "accepted" }));
  assert.deepEqual([error.code, error.status], ["invalid_request", 400]);
});

test("a token opens a hub that asks for one, and a wrong one does not", async () => {
  const message = { recipient: fresh(), data: 1 };
  assert.equal((await hub(GUARDED, { token: TOKEN }).send(message)).accepted, 1);
  const error = await refused(hub(GUARDED, { token: "rst_wrong" }).send(message));
  assert.deepEqual([error.code, error.status, error.retriable], ["unauthenticated", 401, false]);
  assert.equal((await refused(hub(GUARDED).send(message))).code, "unauthenticated");
});

test("addresses are checked at once, and host:port is one", () => {
  assert.equal(connect("127.0.0.1:8470").url, "http://127.0.0.1:8470");
  assert.equal(connect("localhost:8470/hub/").url, "http://localhost:8470/hub");
  assert.equal(connect().url, "http://127.0.0.1:8470");
  for (const wrong of ["ftp://hub", "http://user:secret@hub", "http://hub?x=1", "http://", "a b"]) {
    assert.throws(() => connect(wrong), (error: Error) => !error.message.includes("secret"));
  }
  assert.throws(() => connect("http://hub", { token: "two words" }), { code: "invalid_request" });
  assert.throws(() => connect("http://hub", { timeout: 0 }), { code: "invalid_request" });
  assert.throws(() => connect("http://hub", { retries: -1 }), { code: "invalid_request" });
  assert.throws(() => hub().recipient(".."), { code: "invalid_request" });
  assert.throws(() => hub().recipient("\ud800"), { code: "invalid_request" });
});

import assert from "node:assert/strict";
import { test } from "node:test";
import type { OutgoingMessage } from "restante";
import { fresh, hub, refused } from "./hubs.js";

const NOTHING_OPEN = "0198c5a2-0000-7000-8000-000000000000";

async function mailbox<Data = unknown>(...letters: Omit<OutgoingMessage, "recipient">[]) {
  const recipient = hub().recipient<Data>(fresh());
  if (letters.length) await hub().send(letters.map((letter) => ({ ...letter, recipient: recipient.name })));
  return recipient;
}

test("a bundle is the same until it is dequeued, then the next one comes", async () => {
  const recipient = await mailbox<number>({ data: 1 }, { data: 2 }, { data: 3 });
  const first = await recipient.peek({ maxMessages: 2 });
  assert.deepEqual(first?.messages.map((message) => message.data), [1, 2]);
  assert.equal(first.message_count, 2);
  assert.equal(first.recipient, recipient.name);
  assert.deepEqual(first.document_types, ["default"]);
  assert.equal((await recipient.peek())?.bundle_id, first.bundle_id);
  assert.deepEqual(await first.dequeue(), { bundle_id: first.bundle_id, messages: 2 });
  assert.deepEqual((await recipient.peek())?.messages.map((message) => message.data), [3]);
});

test("an empty mailbox is null, at once", async () => {
  assert.equal(await (await mailbox()).peek(), null);
});

test("a peek waits at the hub until something comes", async () => {
  const recipient = await mailbox<string>();
  const [bundle] = await Promise.all([
    recipient.peek({ wait: 20 }),
    hub().send({ recipient: recipient.name, data: "came" }),
  ]);
  assert.equal(bundle?.messages[0]?.data, "came");
});

test("a peek that waits can be aborted", async () => {
  const recipient = await mailbox();
  const controller = new AbortController();
  const waiting = recipient.peek({ wait: 20, signal: controller.signal });
  controller.abort(new Error("enough"));
  await assert.rejects(waiting, { message: "enough" });
  await assert.rejects(recipient.peek({ signal: controller.signal }), { message: "enough" });
});

test("origins choose what a peek looks at", async () => {
  const recipient = await mailbox({ data: 1, origin: "a b" }, { data: 2, origin: "c&d" });
  assert.equal((await recipient.peek({ origins: ["c&d"] }))?.messages[0]?.data, 2);
  assert.equal((await recipient.peek({ originGroups: ["a b"] }))?.origin, "a b");
});

test("a bundle id and a bound of weight can be chosen", async () => {
  const recipient = await mailbox({ data: 1, weight: 3 }, { data: 2, weight: 3 });
  const bundle = await recipient.peek({ bundleId: NOTHING_OPEN, maxWeight: 4 });
  assert.deepEqual([bundle?.bundle_id, bundle?.message_count], [NOTHING_OPEN, 1]);
  const error = await refused(recipient.peek({ bundleId: NOTHING_OPEN.replace("a2", "a3") }));
  assert.deepEqual([error.code, error.fields["bundle_id"]], ["bundle_open", NOTHING_OPEN]);
});

test("the content of a claim check is the origin's own bytes", async () => {
  const recipient = await mailbox({ origin: "series", document_type: "a, b" }, { origin: "series", document_type: "c" });
  const bundle = await recipient.peek();
  assert.deepEqual(bundle?.content, { media_type: "text/csv", bytes: new TextEncoder().encode("a,b\n") });
  assert.deepEqual(bundle.messages, []);
  assert.equal(bundle.message_count, 2);
  assert.deepEqual([bundle.origin, bundle.kind, bundle.document_types], ["series", "default", ["a, b", "c"]]);
  assert.equal((await bundle.dequeue()).messages, 2);
});

test("a dequeue of what is not there says so", async () => {
  const recipient = await mailbox({ data: 1 });
  assert.equal((await refused(recipient.dequeue(NOTHING_OPEN))).code, "bundle_unknown");
  const bundle = await recipient.peek();
  await bundle?.dequeue();
  const error = await refused(recipient.dequeue(bundle?.bundle_id ?? ""));
  assert.equal(error.code, "bundle_unknown");
  assert.ok(error.fields["dequeued_at"], "somebody did it before");
});

test("collect yields bundle after bundle and dequeues each when the next is asked for", async () => {
  const recipient = await mailbox<number>({ data: 1 }, { data: 2 }, { data: 3 });
  const seen: (number | undefined)[][] = [];
  for await (const bundle of recipient.collect({ idle: 0, maxMessages: 2 })) {
    assert.equal((await recipient.peek())?.bundle_id, bundle.bundle_id, "it is open while the loop has it");
    seen.push(bundle.messages.map((message) => message.data));
  }
  assert.deepEqual(seen, [[1, 2], [3]]);
  assert.equal(await recipient.peek(), null);
});

test("a loop that breaks or fails leaves its bundle, unless it was dequeued in the loop", async () => {
  const recipient = await mailbox({ data: 1 }, { data: 2 });
  for await (const bundle of recipient.collect({ maxMessages: 1 })) {
    assert.ok(bundle);
    break;
  }
  await assert.rejects(async () => {
    for await (const bundle of recipient.collect()) throw new Error(`no room for ${bundle.message_count}`);
  }, /no room for 1/);
  for await (const bundle of recipient.collect()) {
    await bundle.dequeue();
    break;
  }
  assert.deepEqual((await recipient.peek())?.messages.map((message) => message.data), [2]);
});

test("collect goes on over a bundle that the loop dequeued itself", async () => {
  const recipient = await mailbox({ data: 1 }, { data: 2 });
  let bundles = 0;
  for await (const bundle of recipient.collect({ idle: 0, maxMessages: 1 })) {
    await bundle.dequeue();
    bundles += 1;
  }
  assert.equal(bundles, 2);
});

test("collect waits for mail, and an abort ends the loop", async () => {
  const recipient = await mailbox();
  const controller = new AbortController();
  const seen: unknown[] = [];
  const collecting = (async () => {
    for await (const bundle of recipient.collect({ signal: controller.signal })) {
      seen.push(...bundle.messages.map((message) => message.data));
      if (seen.length === 1) await hub().send({ recipient: recipient.name, data: "second" });
      else queueMicrotask(() => controller.abort());
    }
  })();
  await hub().send({ recipient: recipient.name, data: "first" });
  await collecting;
  assert.deepEqual(seen, ["first", "second"]);
});

test("explain says why", async () => {
  const recipient = await mailbox();
  assert.equal((await recipient.explain()).reason, "recipient_unknown");
  await hub().send([{ recipient: recipient.name, origin: "a", data: 1 }]);
  const ready = await recipient.explain({ origins: ["a"] });
  assert.equal(ready.reason, "ready");
  assert.ok(ready.text);
  const [waiting] = ready.waiting;
  assert.deepEqual([waiting?.origin, waiting?.kind, waiting?.messages], ["a", "default", 1]);
  const bundle = await recipient.peek();
  assert.equal((await recipient.explain()).open_bundles[0]?.bundle_id, bundle?.bundle_id);
});

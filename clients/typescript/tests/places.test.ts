import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { connect } from "restante";
import { fresh, hub, nobody, OPEN, QUICK, refused } from "./hubs.js";
import { json, problem, scripted } from "./scripted.js";

/** `fetch` itself tries a request with the status 421 once more, over another connection. */
const TWICE = [1, 2];
const RECEIPT = json(201, { accepted: 1, duplicates: 0, partitions: [] });

async function server(context: TestContext, ...answers: Parameters<typeof scripted>) {
  const started = await scripted(...answers);
  context.after(() => started.close());
  return started;
}

function elsewhere(owner: string) {
  const body = JSON.stringify({ status: 421, code: "not_owner", retriable: true, detail: "Elsewhere.", owner, partition: 3 });
  return (response: import("node:http").ServerResponse): void => {
    response.writeHead(421, { "content-type": "application/problem+json" }).end(body);
  };
}

test("of several addresses one that does not answer is passed over", async () => {
  const gone = await nobody();
  for (let turn = 0; turn < 8; turn += 1) {
    const several = connect([gone, OPEN], { retries: QUICK });
    assert.equal((await several.send({ recipient: fresh(), data: 1 })).accepted, 1);
    assert.equal(several.url, OPEN);
  }
  assert.equal((await hub(`${gone}, ${OPEN}`).send({ recipient: fresh(), data: 1 })).accepted, 1);
});

test("a mailbox is followed at another address when one has gone", async () => {
  const several = connect([await nobody(), OPEN], { retries: QUICK });
  const recipient = fresh();
  await hub().send({ recipient, text: "here" });
  for await (const message of several.recipient(recipient).live({ after: 0 })) {
    assert.equal(message.text, "here");
    break;
  }
});

test("who is told the owner goes there at once", async (context) => {
  const owner = await server(context, RECEIPT);
  const node = await server(context, elsewhere(owner.url));
  const slow = { times: 1, seconds: 60, firstPause: 30, longestPause: 30 };
  assert.equal((await connect(node.url, { retries: slow }).send({ recipient: "alice", data: 1 })).accepted, 1);
  assert.equal(owner.requests.length, 1);
});

test("an owner that cannot be meant, or does not answer, is not insisted on", async (context) => {
  for (const named of ["http://0.0.0.0:9", "ftp://hub.test", `http://${await nobody()}`]) {
    const node = await server(context, ...TWICE.map(() => elsewhere(named)), RECEIPT);
    assert.equal((await hub(node.url).send({ recipient: "alice", data: 1 })).accepted, 1);
    assert.equal(node.requests.length, 3);
  }
});

test("a node that has nobody to name says so in the end", async (context) => {
  const node = await server(context, problem(421, "not_owner", true));
  const error = await refused(hub(node.url, { retries: { ...QUICK, times: 2 } }).send({ recipient: "alice", data: 1 }));
  assert.deepEqual([error.code, node.requests.length], ["not_owner", 3 * TWICE.length]);
});

test("a mailbox that has moved is followed where it went", async (context) => {
  const recipient = fresh();
  await hub().send({ recipient, text: "moved" });
  const frames = [{ type: "connected", sequence_number: 0 }, { type: "disconnect", reason: "moved", owner: OPEN, reconnect_after: 0 }];
  const node = await server(context, (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join(""));
  });
  for await (const message of hub(node.url).recipient(recipient).live({ after: 0, transport: "events" })) {
    assert.equal(message.text, "moved");
    break;
  }
  assert.equal(node.requests.length, 1);
});

test("no address is none", () => {
  assert.throws(() => connect([]));
  assert.throws(() => connect("http://a.test,"));
});

test("a token that goes to another machine in the open is warned of once, also where a node sent it", async (context) => {
  const said = context.mock.method(console, "warn", () => undefined).mock;
  const owner = await server(context, RECEIPT);
  const node = await server(context, ...TWICE.map(() => elsewhere("http://10.1.2.4:8470")), RECEIPT);
  /** The network: all machines but the node are the owner. */
  const fetch = (url: string | URL | Request, options?: RequestInit): Promise<Response> => {
    const { origin, pathname } = new URL(String(url));
    return globalThis.fetch((origin === node.url ? node.url : owner.url) + pathname, options);
  };
  for (const address of [node.url, "http://10.1.2.3:8470", "http://10.1.2.3:8470", "https://hub.example.org", "http://a.localhost"]) {
    const guarded = connect(address, { token: "rst_secret", retries: QUICK, fetch });
    assert.equal((await guarded.send({ recipient: "alice", data: 1 })).accepted, 1);
  }
  await connect("http://10.1.2.3:8470", { fetch }).send({ recipient: "alice", data: 1 });
  const told = said.calls.map((call) => String(call.arguments[0]));
  assert.deepEqual(told.map((text) => /http\S+ without encryption/.exec(text)?.[0]), [
    "http://10.1.2.4:8470 without encryption",
    "http://10.1.2.3:8470 without encryption",
  ]);
  assert.doesNotMatch(told.join(), /secret/);
});

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { LiveOptions, LiveState, Message } from "restante";
import { fresh, GUARDED, hub, nobody, OPEN, QUICK, refused, TOKEN } from "./hubs.js";
import { CuttingProxy } from "./proxy.js";
import { problem, scripted } from "./scripted.js";

const TRANSPORTS = ["websocket", "events"] as const;

async function say(recipient: string, ...numbers: number[]): Promise<void> {
  await hub().send(numbers.map((data) => ({ recipient, data })));
}

function upTo(last: number): number[] {
  return Array.from({ length: last }, (_, index) => index + 1);
}

/** The data of the first so many messages. */
async function first(count: number, live: AsyncIterable<Message>): Promise<unknown[]> {
  const seen: unknown[] = [];
  for await (const message of live) {
    if (seen.push(message.data) === count) break;
  }
  return seen;
}

async function cuttingProxy(context: TestContext): Promise<CuttingProxy> {
  const proxy = await CuttingProxy.open(OPEN);
  context.after(() => proxy.close());
  return proxy;
}

/** States as they are told, and a promise of the first of a stage. */
function listening(stage: LiveState["stage"]) {
  const states: LiveState[] = [];
  let met: (state: LiveState) => void;
  const reached = new Promise<LiveState>((resolve) => (met = resolve));
  const onState = (state: LiveState): void => {
    states.push(state);
    if (state.stage === stage) met(state);
  };
  return { states, reached, onState };
}

for (const transport of TRANSPORTS) {
  test(`${transport}: history comes first, then what is new`, async () => {
    const recipient = fresh();
    await say(recipient, 1, 2);
    const seen: unknown[] = [];
    for await (const message of hub().recipient(recipient).live({ after: 0, transport, client: "a test" })) {
      seen.push(message.data);
      if (seen.length === 2) await say(recipient, 3);
      if (seen.length === 3) break;
    }
    assert.deepEqual(seen, [1, 2, 3]);
  });

  test(`${transport}: without a number it begins with what is published from now on`, async () => {
    const recipient = fresh();
    await say(recipient, 1);
    const { reached, onState } = listening("connected");
    const live = hub().recipient(recipient).live({ transport, onState });
    const next = live.next();
    await reached;
    await say(recipient, 2);
    assert.equal(((await next).value as Message).data, 2);
    await live.return();
  });

  test(`${transport}: after a cut it goes on from the last message, each once and in order`, async (context) => {
    const proxy = await cuttingProxy(context);
    const recipient = fresh();
    await say(recipient, ...upTo(300));
    const { states, onState } = listening("connected");
    const seen: unknown[] = [];
    for await (const message of hub(proxy.url).recipient(recipient).live({ after: 0, transport, onState })) {
      const count = seen.push(message.data);
      if ([1, 300, 301].includes(count)) {
        proxy.cut();
        if (count >= 300) await say(recipient, count + 1);
      }
      if (count === 302) break;
    }
    assert.deepEqual(seen, upTo(302));
    assert.ok(states.filter((state) => state.stage === "connected").length >= 3);
    assert.ok(states.some((state) => state.stage === "reconnecting" && state.reason && state.delay <= QUICK.longestPause));
  });

  test(`${transport}: a cut before the first message does not lose what came meanwhile`, async (context) => {
    const proxy = await cuttingProxy(context);
    const recipient = fresh();
    const { reached, onState } = listening("connected");
    const seeing = first(1, hub(proxy.url).recipient(recipient).live({ transport, onState }));
    await reached;
    proxy.cut();
    await say(recipient, 1);
    assert.deepEqual(await seeing, [1]);
  });

  test(`${transport}: an abort ends a loop that waits, and its connection`, async (context) => {
    const proxy = await cuttingProxy(context);
    const controller = new AbortController();
    const { reached, onState } = listening("connected");
    const live = hub(proxy.url).recipient(fresh()).live({ transport, onState, signal: controller.signal });
    const next = live.next();
    await reached;
    controller.abort();
    assert.deepEqual(await next, { done: true, value: undefined });
    while (proxy.openConnections) await new Promise((resolve) => setImmediate(resolve));
  });

  test(`${transport}: a break ends the connection`, async (context) => {
    const proxy = await cuttingProxy(context);
    const recipient = fresh();
    await say(recipient, 1);
    await first(1, hub(proxy.url).recipient(recipient).live({ after: 0, transport }));
    while (proxy.openConnections) await new Promise((resolve) => setImmediate(resolve));
  });

  test(`${transport}: a number beyond the hub's end is not waited for`, async () => {
    const recipient = fresh();
    const { reached, onState } = listening("connected");
    const seeing = first(1, hub().recipient(recipient).live({ after: 10 ** 9, transport, onState }));
    const state = await reached;
    assert.ok(state.stage === "connected" && state.reason?.includes("before 1000000000"));
    await say(recipient, 7);
    assert.deepEqual(await seeing, [7]);
  });

  test(`${transport}: a hub that was never there is an error soon`, async () => {
    const options = { retries: { ...QUICK, times: 2 } };
    const error = await refused(first(1, hub(await nobody(), options).recipient("a").live({ transport })));
    assert.deepEqual([error.code, error.retriable], ["unavailable", true]);
  });
}

test("text and bytes are shown as such", async () => {
  const recipient = fresh();
  await hub().send([{ recipient, text: "grüße" }, { recipient, bytes: new Uint8Array([0, 255]) }]);
  for await (const message of hub().recipient(recipient).live({ after: 0 })) {
    if (message.text === undefined) {
      assert.deepEqual(message.bytes, new Uint8Array([0, 255]));
      break;
    }
    assert.equal(message.text, "grüße");
  }
});

test("events carry the token", async () => {
  const recipient = fresh();
  const guarded = hub(GUARDED, { token: TOKEN });
  await guarded.send({ recipient, data: 1 });
  assert.deepEqual(await first(1, guarded.recipient(recipient).live({ after: 0 })), [1]);
});

test("a token that is wrong or missing is raised from the loop, and not tried again", async () => {
  for (const options of [{ token: "rst_wrong" }, {}]) {
    const { states, onState } = listening("connected");
    const error = await refused(first(1, hub(GUARDED, options).recipient("a").live({ onState })));
    assert.deepEqual([error.code, error.status], ["unauthenticated", 401]);
    assert.deepEqual(states, [{ stage: "connecting" }]);
  }
});

test("where no WebSocket gets through, events do", async () => {
  const recipient = fresh();
  await say(recipient, 1);
  const address = await nobody();
  class Refused extends WebSocket {
    constructor() {
      super(`ws://${address}`);
    }
  }
  assert.deepEqual(await first(1, hub(OPEN, { WebSocket: Refused }).recipient(recipient).live({ after: 0 })), [1]);
});

test("messages that the hub passed over are replayed", async () => {
  const recipient = fresh();
  await say(recipient, ...upTo(10));
  let frames = 0;
  /** As the hub does when a queue is full: a frame is missing, and its counter too. */
  class Lossy extends WebSocket {
    override set onmessage(handler: ((event: MessageEvent) => void) | null) {
      super.onmessage = handler && ((event) => ((frames += 1) === 5 ? undefined : handler(event)));
    }
  }
  const { states, onState } = listening("reconnecting");
  const lossy = hub(OPEN, { WebSocket: Lossy as typeof WebSocket });
  assert.deepEqual(await first(10, lossy.recipient(recipient).live({ after: 0, onState })), upTo(10));
  const lost = states.filter((state) => state.stage === "reconnecting");
  assert.deepEqual(lost, [{ stage: "reconnecting", reason: "The hub passed messages over: they are replayed.", delay: 0 }]);
});

test("a slow reader of a WebSocket holds a bounded number of messages, and misses none", async () => {
  const recipient = fresh();
  await say(recipient, ...upTo(3_000));
  let closed: () => void;
  const closing = new Promise<void>((resolve) => (closed = resolve));
  class Watched extends WebSocket {
    constructor(url: string) {
      super(url);
      this.addEventListener("close", closed);
    }
  }
  const { states, onState } = listening("reconnecting");
  const seen: unknown[] = [];
  const watched = hub(OPEN, { WebSocket: Watched as unknown as typeof WebSocket });
  for await (const message of watched.recipient(recipient).live({ after: 0, transport: "websocket", onState })) {
    if (seen.push(message.data) === 1) await closing;
    if (seen.length === 3_000) break;
  }
  assert.deepEqual(seen, upTo(3_000));
  assert.ok(states.some((state) => state.stage === "reconnecting"));
});

test("events are read wherever their bytes are cut, frames of other types are passed over, and none is shown twice", async (context) => {
  const letter = (counter: number, sequence_number: number, text: string) => ({
    type: "message",
    counter,
    message: { id: "a", sequence_number, text },
  });
  const first = letter(1, 4, "grüße 🐦\u2028");
  const frames = [{ type: "connected", sequence_number: 3 }, { type: "novelty" }, first, { ...first, counter: 2 }, letter(3, 9, "end")];
  const events = frames.map((frame) => `id: 1\r\ndata: ${JSON.stringify(frame)}\r\n\r\n`);
  const { url, close } = await scripted(async (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const byte of new TextEncoder().encode(`retry: 1000\r\n\r\n: still here\n\n${events.join("")}`)) {
      await new Promise((resolve) => response.write(Uint8Array.of(byte), resolve));
    }
  });
  context.after(close);
  const seen: unknown[] = [];
  for await (const { text } of hub(url).recipient("a").live({ transport: "events" })) {
    seen.push(text);
    if (text === "end") break;
  }
  assert.deepEqual(seen, ["grüße 🐦\u2028", "end"]);
});

test("a hub that has no room for a client is asked again when it says", async (context) => {
  const { url, close } = await scripted(problem(429, "overloaded", true, { "retry-after": "30" }));
  context.after(close);
  const controller = new AbortController();
  const { reached, onState } = listening("reconnecting");
  const options: LiveOptions = { transport: "events", onState, signal: controller.signal };
  const next = hub(url).recipient("a").live(options).next();
  assert.deepEqual(await reached, { stage: "reconnecting", reason: "This is overloaded.", delay: 30 });
  controller.abort();
  assert.equal((await next).done, true);
});

test("a frame that cannot be read is raised: it may have been a message", async (context) => {
  const { url, close } = await scripted((response) => {
    response.writeHead(200, { "content-type": "text/event-stream" }).end("data: {oops\n\n");
  });
  context.after(close);
  const error = await refused(first(1, hub(url).recipient("a").live({ transport: "events" })));
  assert.deepEqual([error.code, error.retriable], ["unavailable", false]);
});

test("wrong options are refused", async () => {
  const recipient = hub().recipient("a");
  assert.throws(() => recipient.live({ transport: "pigeon" as "auto" }), { code: "invalid_request" });
  assert.equal((await refused(first(1, recipient.live({ after: -1 })))).code, "invalid_request");
});

/** A real proxy between a client and a hub, that a test can cut. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

export class CuttingProxy {
  readonly #server: Server;
  readonly #open = new Set<Socket>();
  readonly #hub: URL;
  #before = 0;
  #after = 0;
  /** How many connections there were. */
  connections = 0;
  /** The heads of the requests that passed. */
  readonly heads: string[] = [];

  private constructor(hub: string) {
    this.#hub = new URL(hub);
    this.#server = createServer((client) => this.#accept(client));
  }

  static async open(hub: string): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(hub);
    await once(proxy.#server.listen(0, "127.0.0.1"), "listening");
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get openConnections(): number {
    return this.#open.size;
  }

  /** Cut when the next bytes of a request come, before the hub has seen them. */
  cutBefore(times: number): void {
    this.#before = times;
  }

  /** Cut when the next bytes of an answer come: the hub has done it, and the client does not hear of it. */
  cutAfter(times: number): void {
    this.#after = times;
  }

  /** Cut what is open now. */
  cut(): void {
    assert.ok(this.#open.size, "there is something to cut");
    for (const socket of this.#open) socket.destroy();
  }

  async close(): Promise<void> {
    for (const socket of this.#open) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  #note(sent: string): void {
    if (/^[A-Z]+ \S+ HTTP\/1\.1\r\n/.test(sent)) this.heads.push(sent.split("\r\n\r\n")[0] ?? "");
  }

  #accept(client: Socket): void {
    this.connections += 1;
    const hub = connect(Number(this.#hub.port), this.#hub.hostname);
    for (const [source, target, cuts] of [
      [client, hub, () => this.#before-- > 0],
      [hub, client, () => this.#after-- > 0],
    ] as const) {
      this.#open.add(source);
      source.on("data", (chunk) => {
        if (cuts()) return void source.destroy();
        if (source === client) this.#note(chunk.toString("latin1"));
        target.write(chunk);
      });
      source.on("error", () => undefined);
      source.on("close", () => {
        this.#open.delete(source);
        target.destroy();
      });
    }
  }
}

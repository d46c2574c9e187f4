/**
 * A server in front of a guarded hub that gives tickets out: `POST /v1/tickets` with the token, then `?ticket=` on the
 * live routes. Each ticket opens one connection. Behind it is a real hub, which gets the token instead of the ticket.
 */

import { once } from "node:events";
import { createServer, request, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";

export interface Asked {
  method: string;
  path: string;
  ticket: string | null;
  authorization: string | undefined;
  upgrade: boolean;
}

export class TicketDesk {
  readonly asked: Asked[] = [];
  readonly given: string[] = [];
  readonly #valid = new Set<string>();
  readonly #open = new Set<Duplex>();
  readonly #server: Server;
  readonly #hub: string;
  readonly #token: string;

  private constructor(hub: string, token: string) {
    this.#hub = hub;
    this.#token = token;
    this.#server = createServer((incoming, response) => {
      if (incoming.url === "/v1/tickets") {
        this.#note(incoming, null);
        const known = incoming.method === "POST" && incoming.headers.authorization === `Bearer ${token}`;
        response.writeHead(known ? 201 : 401, { "content-type": "application/json" });
        response.end(known ? JSON.stringify({ ticket: this.give(), expires_at: "2999-01-01T00:00:00Z" }) : "{}");
        return;
      }
      const onward = this.#onward(incoming);
      onward.on("response", (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(response);
      });
      onward.on("error", () => response.destroy());
      response.on("close", () => onward.destroy());
      onward.end();
    });
    this.#server.on("connection", (socket: Socket) => this.#open.add(socket.on("close", () => this.#open.delete(socket))));
    this.#server.on("upgrade", (incoming, socket) => this.#upgrade(incoming, socket));
  }

  static async open(hub: string, token: string): Promise<TicketDesk> {
    const desk = new TicketDesk(hub, token);
    await once(desk.#server.listen(0, "127.0.0.1"), "listening");
    return desk;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** A ticket for one connection. */
  give(): string {
    const ticket = `ticket ${this.given.length + 1}&`;
    this.given.push(ticket);
    this.#valid.add(ticket);
    return ticket;
  }

  cut(): void {
    for (const socket of this.#open) socket.destroy();
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, "close");
  }

  #onward(incoming: IncomingMessage) {
    const url = new URL(incoming.url ?? "", this.#hub);
    const ticket = url.searchParams.get("ticket");
    url.searchParams.delete("ticket");
    this.#note(incoming, ticket);
    const { authorization, host, ...headers } = incoming.headers;
    const known = ticket !== null && this.#valid.delete(ticket);
    const shown = known ? `Bearer ${this.#token}` : authorization;
    return request(url, { method: incoming.method ?? "GET", headers: shown ? { ...headers, authorization: shown } : headers });
  }

  #upgrade(incoming: IncomingMessage, socket: Duplex): void {
    const onward = this.#onward(incoming);
    onward.on("upgrade", (answer, hub) => {
      socket.write(`HTTP/1.1 101 Switching Protocols\r\n${raw(answer)}\r\n\r\n`);
      hub.pipe(socket).pipe(hub);
      for (const end of [hub, socket]) end.on("error", () => undefined).on("close", () => (hub.destroy(), socket.destroy()));
    });
    onward.on("response", (answer) => {
      answer.resume();
      socket.end(`HTTP/1.1 ${answer.statusCode} Refused\r\ncontent-length: 0\r\n\r\n`);
    });
    onward.on("error", () => socket.destroy());
    onward.end();
  }

  #note({ method = "", url = "", headers }: IncomingMessage, ticket: string | null): void {
    const path = new URL(url, this.#hub).pathname;
    this.asked.push({ method, path, ticket, authorization: headers.authorization, upgrade: headers.upgrade !== undefined });
  }
}

function raw({ rawHeaders }: IncomingMessage): string {
  return Array.from({ length: rawHeaders.length / 2 }, (_, index) => `${rawHeaders[2 * index]}: ${rawHeaders[2 * index + 1]}`).join("\r\n");
}

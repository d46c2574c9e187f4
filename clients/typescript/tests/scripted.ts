/** A server that answers what a test wrote down, for what a healthy hub does not do on demand. */

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Scripted {
  url: string;
  requests: IncomingMessage[];
  close(): Promise<void>;
}

/** Each request gets the next answer; the last one answers all that follow. */
export async function scripted(...answers: ((response: ServerResponse) => void)[]): Promise<Scripted> {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    const answer = answers[Math.min(requests.length, answers.length - 1)];
    requests.push(request);
    request.resume().on("end", () => answer?.(response));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests, close };
}

export function problem(status: number, code: string, retriable: boolean, headers: Record<string, string> = {}) {
  const body = JSON.stringify({ status, code, retriable, detail: `This is ${code}.`, correlation_id: "abc" });
  return (response: ServerResponse): void => {
    response.writeHead(status, { "content-type": "application/problem+json", ...headers }).end(body);
  };
}

export function json(status: number, value: unknown) {
  return (response: ServerResponse): void => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
  };
}

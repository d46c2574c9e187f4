/** What the type checker must refuse: a line that it lets pass is an error. Never run. */

import { connect, RestanteError } from "restante";

interface Order {
  total: number;
}

export async function wrong(): Promise<void> {
  const hub = connect();
  // @ts-expect-error A message has a recipient.
  await hub.send({ data: 1 });
  // @ts-expect-error To one recipient, or to several.
  await hub.send({ recipient: "a", recipients: ["b"], data: 1 });
  // @ts-expect-error Fields have the names of the contract.
  await hub.send({ recipient: "a", documentType: "x" });
  // @ts-expect-error Text is text.
  await hub.send({ recipient: "a", text: 1 });
  // @ts-expect-error A lost variable is no data: under exactOptionalPropertyTypes, undefined is not "left out".
  await hub.send({ recipient: "a", text: undefined });
  const bundle = await hub.recipient<Order>("a").peek({ wait: 5 });
  // @ts-expect-error There may be no bundle.
  bundle.messages;
  // @ts-expect-error There may be no data.
  bundle?.messages[0]?.data.total;
  const total: number | undefined = bundle?.messages[0]?.data?.total;
  // @ts-expect-error What was not typed is unknown.
  (await hub.recipient("a").peek())?.messages[0]?.data?.total;
  // @ts-expect-error An option that there is not.
  await hub.recipient("a").peek({ waiting: 5 });
  // @ts-expect-error Only these transports.
  hub.recipient("a").live({ transport: "pigeon" });
  // @ts-expect-error An error is what the hub said.
  new RestanteError("internal", "x").code = "other";
  console.log(total);
}

/** Follows a mailbox and prints what it sees, until it is ended: `node follower.js URL RECIPIENT TRANSPORT`. */

import { connect, type LiveTransport } from "restante";

const [url = "", recipient = "", transport = "auto"] = process.argv.slice(2);
const live = connect(url).recipient(recipient).live({
  after: 0,
  transport: transport as LiveTransport,
  onState: (state) => console.log(JSON.stringify(state)),
});
for await (const message of live) console.log(JSON.stringify({ data: message.data }));

/** Server-sent events, as far as the hub uses them: the data of each event. Ids repeat what the data says. */

const FIELD = "data:";

/** The data of each event of a text that comes in pieces, wherever those are cut. */
export async function* eventData(pieces: AsyncIterable<string>): AsyncGenerator<string, void, void> {
  let unfinished: string[] = [];
  let data: string[] = [];
  for await (const piece of pieces) {
    const lines = piece.split("\n");
    const last = lines.pop() ?? "";
    for (const line of lines) {
      const whole = withoutReturn([...unfinished, line].join(""));
      unfinished = [];
      if (whole.startsWith(FIELD)) data.push(whole.slice(FIELD.length).replace(/^ /, ""));
      if (whole !== "" || data.length === 0) continue;
      yield data.join("\n");
      data = [];
    }
    if (last) unfinished.push(last);
  }
}

function withoutReturn(line: string): string {
  return line.endsWith("\r") ? line.slice(0, -1) : line;
}

"""A chat in a terminal: two people, each on as many devices as they like. `python examples/chat/chat.py ada bob`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from functools import partial
from itertools import chain

import restante.aio
from restante import Message
from restante.client.live.live_async import Live
from restante.client.surface import LiveStage, LiveState
from restante.errors import RestanteError

tell = partial(print, flush=True)


def show(message: Message, who: str | None = None) -> None:
    """A mailbox may hold other things than a chat."""
    said = message.data if isinstance(message.data, dict) else {}
    tell(f"{who or said.get('from', message.origin)} > {said.get('text', '(not of a chat)')}")


def on_state(state: LiveState) -> None:
    if state.stage in (LiveStage.CONNECTED, LiveStage.RECONNECTING):
        tell("* connected" if state.stage is LiveStage.CONNECTED else f"* not connected ({state.reason})")


async def say(live: Live, me: str, friend: str, text: str) -> None:
    """One check mark when it is on its way, two when it is safe."""
    try:
        sent = await live.send(Message(recipient=friend, origin="chat", data={"from": me, "text": text}))
        tell(f"✓ {text}")
        await sent.processed()
        tell(f"✓✓ {text}")
    except RestanteError as error:
        tell(f"✗ {text} ({error.message})")


async def listen(live: Live) -> None:
    async for message in live:
        show(message)


def typed_lines() -> asyncio.Queue[str | None]:
    """The lines of standard input, and None at its end. A thread reads them: a terminal cannot be awaited."""
    lines, loop = asyncio.Queue[str | None](), asyncio.get_running_loop()

    def read() -> None:
        for line in chain(sys.stdin, [None]):
            loop.call_soon_threadsafe(lines.put_nowait, line)

    threading.Thread(target=read, daemon=True).start()
    return lines


async def chat(hub: str, me: str, friend: str, device: str, after: int | None) -> None:
    async with (
        restante.aio.connect(hub) as connected,
        connected.recipient(me).live(
            after=after, client=device, on_state=on_state, on_echo=partial(show, who="me, elsewhere")
        ) as live,
        asyncio.TaskGroup() as tasks,
    ):
        listening = tasks.create_task(listen(live))
        lines = typed_lines()
        try:
            while (line := await lines.get()) is not None:
                if line.strip():
                    await say(live, me, friend, line.strip())
        finally:  # Ctrl-D, Ctrl-C, or a hub that does not let this one in
            listening.cancel()
            if live.position is not None:
                tell(f"* go on with --after {live.position}")


def talk(options: argparse.Namespace) -> int:
    """The chat until its end; gives the exit code. An error is one line."""
    code = 0
    try:
        asyncio.run(chat(**vars(options)))
    except* KeyboardInterrupt:
        code = 130
    except* RestanteError as errors:
        code = 1
        tell(f"* {errors.exceptions[0]}", file=sys.stderr)
    return code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Chat with a friend.")
    parser.add_argument("me")
    parser.add_argument("friend")
    parser.add_argument("--hub", default="http://127.0.0.1:8470")
    parser.add_argument("--device", default="terminal")
    parser.add_argument("--after", type=int, help="show what came behind this number; 0 is everything")
    sys.exit(talk(parser.parse_args()))

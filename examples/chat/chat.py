"""A chat in a terminal: two people, each on as many devices as they like. `python examples/chat/chat.py ada bob`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading

import restante.aio
from restante import Message
from restante.client.live_async import Live
from restante.client.surface import LiveStage, LiveState
from restante.errors import RestanteError


def text_of(message: Message) -> str:
    return f"{message.data['text']}"


def tell(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - it is what the program is for


def on_state(state: LiveState) -> None:
    if state.stage is LiveStage.RECONNECTING:
        tell(f"* not connected ({state.reason})")
    elif state.stage is LiveStage.CONNECTED:
        tell("* connected")


def on_echo(message: Message) -> None:
    """What I said on another device."""
    tell(f"me, elsewhere > {text_of(message)}")


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
        tell(f"{message.data['from']} > {text_of(message)}")


def typed_lines() -> asyncio.Queue[str | None]:
    """The lines of standard input, and None at its end. A thread reads them: a terminal cannot be awaited."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line.strip())
        loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    return lines


async def chat(url: str, me: str, friend: str, device: str, after: int | None) -> None:
    async with (
        restante.aio.connect(url) as hub,
        hub.recipient(me).live(after=after, client=device, on_state=on_state, on_echo=on_echo) as live,
        asyncio.TaskGroup() as tasks,
    ):
        listening = tasks.create_task(listen(live))
        lines = typed_lines()
        while (line := await lines.get()) is not None:
            if line:
                await say(live, me, friend, line)
        listening.cancel()
        tell(f"* go on with --after {live.position}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Chat with a friend.")
    parser.add_argument("me")
    parser.add_argument("friend")
    parser.add_argument("--hub", default="http://127.0.0.1:8470")
    parser.add_argument("--device", default="terminal")
    parser.add_argument("--after", type=int, help="show what came behind this number; 0 is everything")
    chosen = parser.parse_args()
    asyncio.run(chat(chosen.hub, chosen.me, chosen.friend, chosen.device, chosen.after))

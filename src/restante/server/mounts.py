"""Applications that are served at this address besides, each under a path of its own, such as the console."""

from __future__ import annotations

from typing import Protocol

from restante.server.connections.exchange import Event, Exchange, Receive, Scope, Send


class MountedApplication(Protocol):
    """An ASGI application that can be told that the hub is going."""

    path: str
    """Where it is: all below it is its own."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...
    def drain(self) -> None:
        """End what would go on for ever."""
        ...


def is_below(path: bytes, mounted: MountedApplication) -> bool:
    own = mounted.path.encode()
    return path == own or path.startswith(own + b"/")


async def hand_over(mounted: MountedApplication, exchange: Exchange, receive: Receive, send: Send) -> None:
    """Let it answer; what it answered is counted as with every request."""

    async def sending(event: Event) -> None:
        if event["type"] == "http.response.start":
            exchange.status = event["status"]
        elif event["type"] == "http.response.body":
            exchange.sent_bytes += len(event.get("body", b""))
        await send(event)

    await mounted(exchange.scope, receive, sending)

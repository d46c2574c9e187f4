"""The way of the console to the hub of its own process."""

from __future__ import annotations

import asyncio

from restante.client.transport.address import addresses_of
from restante.console.web.doors import NetworkDoor, SameProcessDoor
from restante.console.web.exchanges import Receive, Scope, Send
from restante.server.serve import ServedHub


def test_a_request_is_not_called_off_before_it_is_answered() -> None:
    """A hub of several processes carries requests to its shards, and drops one whose client has gone."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["path"] == "/v1/partitions"
        await receive()
        gone = asyncio.ensure_future(receive())
        await asyncio.sleep(0)
        await send({"type": "http.response.start", "status": 503 if gone.done() else 200, "headers": []})
        await send({"type": "http.response.body", "body": b"whole", "more_body": False})
        assert (await gone)["type"] == "http.disconnect"

    answer = asyncio.run(SameProcessDoor(application, "here").ask("GET", "/v1/partitions", {}, b""))
    assert (answer.status, answer.body) == (200, b"whole")


def test_of_several_addresses_another_is_asked_when_one_does_not_answer(hub: ServedHub) -> None:
    async def scene() -> int:
        door = NetworkDoor(*addresses_of(f"http://127.0.0.1:9,{hub.url}"))
        try:
            return (await door.ask("GET", "/v1/whoami", {}, b"")).status
        finally:
            await door.close()

    assert asyncio.run(scene()) == 200

"""The way of the console to the hub of its own process."""

from __future__ import annotations

import asyncio

from restante.console.web.doors import SameProcessDoor
from restante.console.web.exchanges import Receive, Scope, Send


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

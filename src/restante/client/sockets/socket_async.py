"""The pipelined link for asynchronous programs: `restante.client.sockets.socket_sync` with `await`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from restante.client.sockets.frames import PATH, Framing
from restante.client.sockets.sockets import denied, failure_of, text_response
from restante.client.transport.address import HubAddress
from restante.client.transport.exchange import LinkFrame, LongWork, Pause, Reply, Step
from restante.client.transport.options import Terms


def connecting(address: HubAddress) -> connect:
    """A web socket to the hub for frames. Its time is limited by whoever awaits it."""
    return connect(
        address.socket_url + PATH,
        additional_headers=address.credentials(),
        compression=None,
        proxy=None if address.local else True,
        open_timeout=None,
        close_timeout=1,
    )


class AsyncSocketCarrier(Framing):
    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._address = terms.address
        self._stack = AsyncExitStack()
        self._connection: ClientConnection | None = None

    async def perform(self, step: Step, meanwhile: Callable[[], None]) -> Any:  # noqa: ANN401 - as the step
        if isinstance(step, LinkFrame):
            return await self._exchange(step, meanwhile)
        if isinstance(step, LongWork):
            return await asyncio.to_thread(step.function)
        assert isinstance(step, Pause)
        return await asyncio.sleep(step.seconds)

    async def close(self) -> None:
        await self._drop()

    async def _exchange(self, frame: LinkFrame, meanwhile: Callable[[], None]) -> Reply:
        fresh = self._connection is None
        try:
            async with asyncio.timeout(frame.timeout):
                connection = self._connection or await self._connect()
                await connection.send(frame.content)
                meanwhile()
                return text_response(await connection.recv())
        except InvalidStatus as error:
            return denied(error)
        except (OSError, WebSocketException) as error:
            reached = not fresh or self._connection is not None
            await self._drop()
            return failure_of(error, frame, reached=reached)

    async def _connect(self) -> ClientConnection:
        self._connection = await self._stack.enter_async_context(connecting(self._address))
        return self._connection

    async def _drop(self) -> None:
        self._connection = None
        await self._stack.aclose()

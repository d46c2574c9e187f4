"""The pipelined link for programs that wait: frames over one web socket, which is opened again when it is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from restante.client.sockets.frames import PATH, Framing
from restante.client.sockets.sockets import denied, failure_of, text_response
from restante.client.transport.address import HubAddress
from restante.client.transport.exchange import LinkFrame, LongWork, Pause, Reply, Step
from restante.client.transport.http import closed
from restante.client.transport.options import Terms


def connecting(address: HubAddress, seconds: float) -> AbstractContextManager[ClientConnection]:
    """A web socket to the hub for frames, as a context."""
    return connect(
        address.socket_url + PATH,
        additional_headers=address.credentials(),
        compression=None,
        proxy=None if address.local else True,
        open_timeout=seconds,
        close_timeout=1,
    )


class SocketCarrier(Framing):
    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._address = terms.address
        self._closing = threading.Event()
        self._stack = ExitStack()
        self._connection: ClientConnection | None = None

    def perform(self, step: Step, meanwhile: Callable[[], None]) -> Any:  # noqa: ANN401 - as the step
        if self._closing.is_set():
            raise closed()
        if isinstance(step, LinkFrame):
            return self._exchange(step, meanwhile)
        if isinstance(step, LongWork):
            return step.function()
        assert isinstance(step, Pause)
        return self._closing.wait(step.seconds)

    def close(self) -> None:
        self._closing.set()
        self._drop()

    def _exchange(self, frame: LinkFrame, meanwhile: Callable[[], None]) -> Reply:
        fresh = self._connection is None
        try:
            connection = self._connection or self._connect(frame.timeout)
            connection.send(frame.content)
            meanwhile()
            return text_response(connection.recv(frame.timeout))
        except InvalidStatus as error:
            return denied(error)
        except (OSError, WebSocketException) as error:
            reached = not fresh or self._connection is not None
            self._drop()
            return failure_of(error, frame, reached=reached)

    def _connect(self, seconds: float) -> ClientConnection:
        self._connection = self._stack.enter_context(connecting(self._address, seconds))
        return self._connection

    def _drop(self) -> None:
        self._connection = None
        self._stack.close()

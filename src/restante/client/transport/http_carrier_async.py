"""Carrying out dialogues over HTTP, for asynchronous programs: requests, pauses and long computations."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, TypeVar

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import PyreqwestError

from restante.client.nodes.hub_places import map_request
from restante.client.transport.address import HubAddress
from restante.client.transport.exchange import Dialogue, HttpRequest, LongWork, Pause, Reply
from restante.client.transport.http import closed, configured, failure_of, filled, response_of
from restante.client.transport.options import Terms
from restante.client.transport.unreachable import FirstContact

T = TypeVar("T")


class AsyncHttpCarrier:
    """Carries out dialogues. Calls may come from any task of one event loop; each uses its own connection from the pool."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._closing = threading.Event()
        self._contact = FirstContact(terms.address, terms.tell)
        self._pool = [self._built(terms.timeout)]
        """The HTTP clients, shared with links derived from this one; emptied by `close`."""

    def _built(self, connect_seconds: float) -> Client:
        return configured(ClientBuilder(), self._terms.address, connect_seconds=connect_seconds).build()

    @property
    def where(self) -> str:
        """Where the hub is, as text without the token."""
        return f"at {self._terms.address.url}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to the hub {self.where}>"

    async def _run(self, dialogue: Dialogue[T]) -> T:
        reply: Any = None
        while True:
            try:
                step = dialogue.send(reply)
            except StopIteration as done:
                answer: T = done.value
                return answer
            if isinstance(step, HttpRequest):
                reply = await self._exchange(step)
            elif isinstance(step, LongWork):
                reply = await asyncio.to_thread(step.function)
            else:
                assert isinstance(step, Pause)
                await asyncio.sleep(step.seconds)
                reply = None

    async def _exchange(self, request: HttpRequest) -> Reply:
        if self._closing.is_set():
            raise closed()
        places = self._terms.places
        if places.map_is_due():
            places.learn(await self._exchange_at(places.any_place(), map_request(request.timeout)))
        place = places.place_for(request.path, request.body)
        reply = await self._exchange_at(place, request)
        places.heard(place, reply)
        return reply

    async def _exchange_at(self, address: HubAddress, request: HttpRequest) -> Reply:
        cancelled = _cancellations()
        try:
            builder = self._client().request(request.method, address.url + request.target)
            with self._contact.watched():
                response = await filled(builder, request, address).build().send()
            reply: Reply = response_of(response, await response.bytes())
        except PyreqwestError as error:
            reply = failure_of(error, request)
        except IndexError as error:
            raise closed() from error
        if _cancellations() > cancelled:
            # pyreqwest swallows a cancellation that comes at the same moment as the answer, or as a failure.
            raise asyncio.CancelledError
        return reply

    def _client(self) -> Client:
        if not self._terms.places.several:
            return self._pool[0]
        if len(self._pool) == 1:
            self._pool.append(self._built(self._terms.places.patience(self._terms.timeout)))
        return self._pool[1]

    async def close(self) -> None:
        self._closing.set()
        while self._pool:
            await self._pool.pop().close()


def _cancellations() -> int:
    """How many cancellations of the current task have been requested."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0

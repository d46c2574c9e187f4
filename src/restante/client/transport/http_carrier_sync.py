"""Carrying out dialogues over HTTP, for programs that wait: requests, pauses and long computations."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any, TypeVar

from pyreqwest.client import SyncClient, SyncClientBuilder
from pyreqwest.exceptions import PyreqwestError

from restante.client.nodes.hub_places import map_request
from restante.client.transport.address import HubAddress
from restante.client.transport.exchange import Dialogue, HttpRequest, LongWork, Pause, Reply
from restante.client.transport.http import closed, configured, failure_of, filled, response_of
from restante.client.transport.options import Terms
from restante.client.transport.unreachable import FirstContact

T = TypeVar("T")


class HttpCarrier:
    """Carries out dialogues. Calls may come from any thread; each uses its own connection from the pool."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._closing = threading.Event()
        self._contact = FirstContact(terms.address, terms.tell)
        self._pool = [self._built(terms.timeout)]
        """The HTTP clients, shared with links derived from this one; emptied by `close`."""

    def _built(self, connect_seconds: float) -> SyncClient:
        return configured(SyncClientBuilder(), self._terms.address, connect_seconds=connect_seconds).build()

    @property
    def where(self) -> str:
        """Where the hub is, as text without the token."""
        return f"at {self._terms.address.url}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to the hub {self.where}>"

    def _run(self, dialogue: Dialogue[T]) -> T:
        reply: Any = None
        while True:
            try:
                step = dialogue.send(reply)
            except StopIteration as done:
                answer: T = done.value
                return answer
            if isinstance(step, HttpRequest):
                reply = self._exchange(step)
            elif isinstance(step, LongWork):
                reply = step.function()
            else:
                assert isinstance(step, Pause)
                self._pause(step.seconds)
                reply = None

    def _exchange(self, request: HttpRequest) -> Reply:
        if self._closing.is_set():
            raise closed()
        if request.timeout > self._terms.timeout and threading.current_thread() is threading.main_thread():
            return self._interruptibly(request)
        return self._send(request)

    def _interruptibly(self, request: HttpRequest) -> Reply:
        """Send a request that may wait long, in a background thread, so that Ctrl-C ends the waiting at once."""
        outcome: Future[Reply] = Future()
        threading.Thread(target=self._send_for, args=(request, outcome), name="restante-wait", daemon=True).start()
        try:
            return outcome.result()
        finally:
            del outcome  # An error's traceback holds this frame, and the future holds the error: break the cycle.

    def _send_for(self, request: HttpRequest, outcome: Future[Reply]) -> None:
        try:
            outcome.set_result(self._send(request))
        except BaseException as error:  # noqa: BLE001  # the caller must get every error
            outcome.set_exception(error)

    def _send(self, request: HttpRequest) -> Reply:
        places = self._terms.places
        if places.map_is_due():
            places.learn(self._send_to(places.any_place(), map_request(request.timeout)))
        place = places.place_for(request.path, request.body)
        reply = self._send_to(place, request)
        places.heard(place, reply)
        return reply

    def _send_to(self, address: HubAddress, request: HttpRequest) -> Reply:
        try:
            builder = self._client().request(request.method, address.url + request.target)
            with self._contact.watched():
                response = filled(builder, request, address).build().send()
            return response_of(response, response.bytes())
        except PyreqwestError as error:
            return failure_of(error, request)
        except IndexError as error:
            raise closed() from error

    def _client(self) -> SyncClient:
        if not self._terms.places.several:
            return self._pool[0]
        if len(self._pool) == 1:
            self._pool.append(self._built(self._terms.places.patience(self._terms.timeout)))
        return self._pool[1]

    def _pause(self, seconds: float) -> None:
        if self._closing.wait(seconds):
            raise closed()

    def close(self) -> None:
        self._closing.set()
        while self._pool:
            self._pool.pop().close()

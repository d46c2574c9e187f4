"""Producers that speak the wire themselves and give no ids: only their numbers keep what they send from being stored twice.

A parcel whose answer is lost is sent again as it is, until there is an answer.
"""

from __future__ import annotations

import http.client
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from restante.errors import ProducerDisconnected
from restante.model.producers.producer import following, next_number
from tests.producers.campaign_ledger import Reign, Tally

TIMEOUT_SECONDS = 0.25
Lost = (OSError, http.client.HTTPException, WebSocketException, EOFError, msgspec.DecodeError)
"""No answer came, or not all of it."""
COME_AGAIN = ("unavailable", "overloaded")
LOOKS_RATE = 0.1


class Wire(Protocol):
    """One way to send a parcel; gives the answer or the problem."""

    def post(self, reign: Reign, number: int, messages: list[Mapping[str, object]]) -> dict[str, Any]: ...
    def close(self) -> None: ...


class ByHttp:
    """A connection that is kept as long as it lives."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=TIMEOUT_SECONDS)

    def post(self, reign: Reign, number: int, messages: list[Mapping[str, object]]) -> dict[str, Any]:
        headers = {
            "content-type": "application/json",
            "restante-producer-group": str(reign.group),
            "restante-owner-level": str(reign.level),
            "restante-published-sequence": str(number),
        }
        body = msgspec.json.encode({"messages": messages})
        return self.ask("POST", f"/v1/partitions/{reign.partition}/parcels", body, headers)

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        try:
            self._connection.request(method, path, body, dict(headers or {}))
            answer: dict[str, Any] = msgspec.json.decode(self._connection.getresponse().read())
        except Lost:
            self._connection.close()
            raise
        return answer

    def close(self) -> None:
        self._connection.close()


class ByWebSocket:
    """Frames of the pipelined link, one at a time."""

    def __init__(self, url: str) -> None:
        self._url = url.replace("http://", "ws://") + "/v1/publish"
        self._socket: ClientConnection | None = None
        self._closing = ExitStack()
        self._number = 0

    def post(self, reign: Reign, number: int, messages: list[Mapping[str, object]]) -> dict[str, Any]:
        try:
            if self._socket is None:
                opening = connect(self._url, open_timeout=TIMEOUT_SECONDS, close_timeout=0, compression=None)
                self._socket = self._closing.enter_context(opening)
            self._number += 1
            producer = {"group": reign.group, "owner_level": reign.level, "published_sequence": number}
            frame = {"number": self._number, "partition": reign.partition, "producer": producer, "messages": messages}
            self._socket.send(msgspec.json.encode(frame).decode())
            answer: dict[str, Any] = msgspec.json.decode(self._socket.recv(TIMEOUT_SECONDS))
        except Lost:
            self.close()
            raise
        assert answer.pop("number") == self._number
        problem: dict[str, Any] | None = answer.get("problem")
        return answer if problem is None else problem

    def close(self) -> None:
        with suppress(*Lost):
            self._closing.close()
        self._socket = None


class RawProducer:
    """Numbers its parcels and sends them, one after another."""

    def __init__(self, reign: Reign, recipients: Sequence[str], tally: Tally, *, seed: str) -> None:
        self._reign, self._recipients, self._tally = reign, recipients, tally
        self._chance = random.Random(seed)
        self._last = reign.last_before

    def run(
        self, url: str, wire: Callable[[str], Wire], *, turns: int | None, predecessor: Reign | None = None
    ) -> None:
        """So many parcels, and more until a predecessor has heard of it; None: until it is fenced off itself."""
        way, looks = wire(url), ByHttp(url)
        try:
            while self._reign.ended is None and not self._tally.failures:
                waits = predecessor is not None and predecessor.ended is None
                if turns is not None and len(self._reign.sent) >= turns and not waits:
                    return
                self._send(way, self._chance.choice([1, 1, 3, 20]))
                if self._chance.random() < LOOKS_RATE:
                    self._look(looks)
        finally:
            way.close()
            looks.close()

    def _send(self, way: Wire, count: int) -> None:
        reign, turn, number = self._reign, len(self._reign.sent), next_number(self._last)
        reign.sent[turn] = count
        messages: list[Mapping[str, object]] = [
            {"recipient": self._chance.choice(self._recipients), "data": [reign.name, turn, index]}
            for index in range(count)
        ]
        answer = self._answered(lambda: way.post(reign, number, messages))
        if answer is None:
            return
        assert (answer["accepted"], answer["duplicates"]) == (count, 0), answer
        reign.acknowledged[turn] = number
        self._last = following(number, count - 1)
        self._tally.count(parcels=1, messages=count, replays_answered=answer.get("replayed", False))

    def _look(self, looks: ByHttp) -> None:
        """The hub's numbers are those of this producer, whatever else may have reached it late or twice."""
        reign = self._reign
        state = self._answered(lambda: looks.ask("GET", f"/v1/partitions/{reign.partition}/producers/{reign.group}"))
        if state is not None and state["owner_level"] == reign.level:
            assert state["last_published_sequence_number"] == self._last, (reign.name, state)

    def _answered(self, call: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """Ask until there is an answer; None if there will be none: this producer was fenced off, or another has failed."""
        while not self._tally.failures:
            try:
                answer = call()
            except Lost:
                self._tally.count(unclear=1)
                continue
            code = answer.get("code")
            if code is None:
                return answer
            if code == ProducerDisconnected.code:
                self._tally.count(disconnected=1)
                details = {name: answer[name] for name in ("received", "current")}
                self._reign.ended = ProducerDisconnected(answer["detail"], **details)
                return None
            assert code in COME_AGAIN, (self._reign.name, answer)
        return None

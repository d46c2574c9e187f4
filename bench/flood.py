"""Publishing parcels without pause until all is filed, with single publishes meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self
from uuid import uuid4

from bench.context import Bench
from bench.display import Advance
from bench.mail import DATA_BYTES, KIND, ORIGIN, published_bytes, recipient_name, recipient_names
from bench.peer import Peer
from restante.client.surface.surface import Producer
from restante.model.publishing.message import Message

DRIP_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Flood:
    """The measurement of a flood. A mark is (messages published, seconds since the start)."""

    messages: int
    seconds: float
    marks: Sequence[tuple[int, float]]
    published_bytes: int

    @property
    def rate(self) -> float:
        """Messages a second until all was filed."""
        return self.messages / self.seconds

    def rates(self) -> list[tuple[float, float]]:
        """Messages a second from mark to mark, filing at the end left out."""
        before = [(0, 0.0), *self.marks[:-1]]
        return [
            (float(count), (count - earlier) / (seconds - start))
            for (earlier, start), (count, seconds) in zip(before, self.marks, strict=True)
        ]


def flood(bench: Bench, peer: Peer, total: int, title: str) -> Flood:
    """Publishes so many messages to all recipients. Only what a peer needs to prepare a parcel is not counted."""
    scale = bench.scale
    recipients = recipient_names(scale.recipients)
    marks: list[tuple[int, float]] = []
    excused = 0.0
    size = 0
    with bench.display.bar(title, total) as advance:
        start = time.perf_counter()
        for published in range(scale.parcel, total + 1, scale.parcel):
            table = bench.mail.table(recipients, scale.parcel)
            before = time.perf_counter()
            prepared = peer.prepare(table)
            excused += time.perf_counter() - before
            peer.publish(prepared)
            size += published_bytes(table)
            if published % scale.step == 0:
                marks.append((published, time.perf_counter() - start - excused))
            _show(advance, published, time.perf_counter() - start - excused, scale.parcel)
        advance("filing", count=0)
        peer.settle()
        return Flood(total, time.perf_counter() - start - excused, marks, size)


def _show(advance: Advance, published: int, seconds: float, count: int) -> None:
    advance(f"{published / seconds:,.0f}/s", count=count)


class Drip:
    """A thread that publishes single messages, one after the other with a short rest, and takes the time of each."""

    def __init__(self, producer: Producer, recipients: int) -> None:
        self.latencies: list[float] = []
        self._producer = producer
        self._recipients = recipients
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="drip")

    def __enter__(self) -> Self:
        self._done = self._thread.submit(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._done.result()
        self._thread.shutdown()

    def _run(self) -> None:
        data = bytes(DATA_BYTES)
        while not self._stop.wait(DRIP_SECONDS):
            number = len(self.latencies) * 7_919 % self._recipients
            message = Message(recipient=recipient_name(number), id=str(uuid4()), origin=ORIGIN, kind=KIND, data=data)
            start = time.perf_counter()
            self._producer.send(message)
            self.latencies.append(time.perf_counter() - start)

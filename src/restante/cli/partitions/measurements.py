"""The measurements of `restante bench`: a few calls, each timed, in mailboxes that are erased afterwards."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from restante.client.surface.surface import Bundle, Hub
from restante.limits import SEND_PIECE_BYTES
from restante.model.publishing.message import Message

DATA_BYTES = 200
_PEEKS = 10
_DATA = bytes(DATA_BYTES)
_MESSAGES_A_SEND = SEND_PIECE_BYTES // (DATA_BYTES + 100)


@dataclass(slots=True)
class Measured:
    """One line of the table: how long each call took, and how many messages all of them were about."""

    what: str
    messages: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.messages / max(sum(self.seconds), 1e-9)

    def percentile(self, which: int) -> float:
        return float(np.percentile(self.seconds, which)) if self.seconds else 0.0

    def timed(self, call: Callable[[], int]) -> None:
        """Add a call, which says how many messages it was about."""
        started = time.perf_counter()
        self.messages += call()
        self.seconds.append(time.perf_counter() - started)

    def as_answer(self) -> dict[str, object]:
        return {
            "what": self.what,
            "calls": len(self.seconds),
            "messages": self.messages,
            "p50_seconds": self.percentile(50),
            "p99_seconds": self.percentile(99),
            "messages_per_second": self.rate,
        }


def measure(hub: Hub, messages: int, small: int, tell: Callable[[str], None]) -> list[Measured]:
    """Make all measurements. The mailboxes are erased at the end, whatever happens."""
    prefix = f"restante-bench-{os.urandom(4).hex()}"
    bulk, single = f"{prefix}-bulk", f"{prefix}-single"
    steps: Sequence[tuple[str, Callable[[Measured], None]]] = (
        ("publish in bulk", lambda measured: _publish_bulk(hub, bulk, messages, measured)),
        ("publish one by one", lambda measured: _publish_single(hub, single, small, measured)),
        ("peek", lambda measured: _peek(hub, bulk, measured)),
        ("dequeue", lambda measured: _dequeue(hub, bulk, measured)),
    )
    found = []
    try:
        for name, step in steps:
            tell(name)
            found.append(Measured(name))
            step(found[-1])
    finally:
        for name in (bulk, single):
            hub.recipient(name).erase()
    return found


def _publish_bulk(hub: Hub, recipient: str, messages: int, measured: Measured) -> None:
    for table in _tables(recipient, messages):
        measured.timed(lambda table=table: hub.producer.send(table).accepted)  # type: ignore[misc]


def _tables(recipient: str, messages: int) -> Iterator[pa.Table]:
    for first in range(0, messages, _MESSAGES_A_SEND):
        count = min(_MESSAGES_A_SEND, messages - first)
        yield pa.table({"recipient": pa.repeat(recipient, count), "data": pa.repeat(pa.scalar(_DATA), count)})


def _publish_single(hub: Hub, recipient: str, small: int, measured: Measured) -> None:
    message = Message(recipient=recipient, data=_DATA)
    for _ in range(small):
        measured.timed(lambda: hub.producer.send(message).accepted)


def _peek(hub: Hub, recipient: str, measured: Measured) -> None:
    """The same open bundle again and again."""
    for _ in range(_PEEKS):
        measured.timed(lambda: _next(hub, recipient).table.num_rows)


def _dequeue(hub: Hub, recipient: str, measured: Measured) -> None:
    for bundle in hub.recipient(recipient).bundles(max_messages=_MESSAGES_A_SEND, idle=0):
        measured.timed(lambda bundle=bundle: bundle.dequeue().messages)  # type: ignore[misc]


def _next(hub: Hub, recipient: str) -> Bundle:
    bundle = hub.recipient(recipient).peek()
    assert bundle is not None, "what was published waits"
    return bundle

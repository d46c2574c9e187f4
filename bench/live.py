"""Live delivery: connections that wait, a publisher, and when each message came.

One process with an event loop waits, and another one publishes. Both are the same for all servers, but for how a connection is
made and how a message is sent. A message carries its number in its data, so that every receipt is matched
with its publish, by a clock that all processes of the machine share. A `LiveWay` is one way to do it, on one of the
servers of the run; a peer's ways are `LIVE` of its file in `bench.peers`.
"""

from __future__ import annotations

import importlib
import pkgutil
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.mail import Mail
from bench.server import Server

DATA_BYTES = 256
PARCEL = 10_000
"""Messages that are published together, where that is faster."""
ALL = -1
"""A message is dealt to every connection."""

Numbers = NDArray[np.int64]
Moments = NDArray[np.float64]
number_of = struct.Struct("<q").unpack_from
"""The number that the data of a message begins with, as a tuple of one."""


@dataclass(frozen=True, slots=True)
class Audience:
    """The connections, each by whose messages it gets, and how many of them."""

    names: Sequence[str]
    expected: Sequence[int]
    stuck: frozenset[int] = frozenset()
    """Connections that read nothing; nothing is expected of them."""


@dataclass(frozen=True, slots=True)
class More:
    """The messages that the same connections are to get next."""

    expected: Sequence[int]


@dataclass(frozen=True, slots=True)
class Sending:
    """Messages in the order of their numbers: so many a second, or as fast as it goes."""

    table: pa.Table
    pace: float | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """When each message was handed over, by number, and when the last was known to be durable."""

    moments: Moments
    finished: float


@dataclass(frozen=True, slots=True)
class Received:
    """The numbers that came, connection by connection, in the order they came, and when."""

    connections: Numbers
    numbers: Numbers
    moments: Moments
    dropped: int = 0
    """The number of missed messages that the server has announced to a connection."""


@dataclass(frozen=True, slots=True)
class LiveWay:
    """A way to reach connected clients: connections are made in one process, and messages are published to them in another."""

    name: str
    receiver: Callable[[], Any]
    bulk: Callable[[], Any]
    """Publishes all of a table as fast as it goes."""
    paced: Callable[[], Any]
    """Publishes one message after the other, at an even pace."""
    other_bulk: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    """Other ways to publish as fast as it goes, by what is added to the name: which one is fastest depends on the work."""

    def in_bulk(self) -> list[LiveWay]:
        """This one, and the same with each of the other ways to publish."""
        others = [replace(self, name=f"{self.name}, {name}", bulk=bulk) for name, bulk in self.other_bulk.items()]
        return [self, *others]


@dataclass(frozen=True, slots=True)
class Show:
    """The messages that are sent in one sample, and who waits for them."""

    audience: Audience
    table: pa.Table
    dealt: Numbers = field(repr=False)
    """For each message, by number, the connection that is to get it, or all of them."""

    def expected(self) -> tuple[Numbers, Numbers]:
        """The connections and numbers that have to come, as `Received` has them."""
        connections = np.arange(len(self.audience.names))
        if self.dealt[0] == ALL:
            everything = np.arange(len(self.dealt))
            return np.repeat(connections, len(everything)), np.tile(everything, len(connections))
        order = np.argsort(self.dealt, kind="stable")
        taking = ~np.isin(self.dealt[order], list(self.audience.stuck))
        return self.dealt[order][taking], order[taking]

    def check(self, received: Received) -> None:
        """Check that each connection got all its messages, once and in order, unless the server has announced missed ones."""
        connections, numbers = self.expected()
        if received.dropped:
            assert len(received.numbers) < len(numbers), "told of a gap, but all came"
            return
        same = np.array_equal(received.connections, connections) and np.array_equal(received.numbers, numbers)
        assert same, f"{len(received.numbers)} receipts that are not the {len(numbers)} that were to come, in order"


def latencies(published: Published, received: Received) -> Moments:
    """The time of each receipt from the call that published the message until its client had it."""
    found: Moments = received.moments - published.moments[received.numbers]
    assert found.min() > 0, "something was received before it was published: it is not what was published"
    return found


def last_latencies(published: Published, received: Received) -> Moments:
    """The latency of each message, until the last of all clients had it."""
    last = np.zeros(len(published.moments))
    np.maximum.at(last, received.numbers, received.moments)
    found: Moments = last - published.moments
    return found


def one_mailbox_each(mail: Mail, *, connections: int, messages: int, stuck: int = 0) -> Show:
    """Messages to connections in turn, each of which has a mailbox of its own. The first ones may be stuck."""
    dealt = np.arange(messages) % connections
    return _show(mail, mail.newcomers(connections), dealt, stuck=stuck)


def at_random(mail: Mail, names: pa.StringArray, *, messages: int) -> Show:
    """Messages to some of the connections."""
    dealt = np.random.default_rng().integers(0, len(names), messages)
    return _show(mail, names, dealt)


def one_for_all(mail: Mail, *, connections: int, messages: int) -> Show:
    """All connections are clients of one recipient."""
    name = mail.newcomer()
    table = numbered(mail.one_each(name.take(pa.array(np.zeros(messages, np.int32), pa.int32()))))
    audience = Audience([str(name[0])] * connections, [messages] * connections)
    return Show(audience, table, np.full(messages, ALL))


def numbered(table: pa.Table, *, size: int = DATA_BYTES) -> pa.Table:
    """The same messages with data of this size, which begins with the message's number."""
    count = table.num_rows
    octets = np.random.default_rng().integers(0, 256, (count, size), np.uint8)
    octets[:, :8] = np.arange(count, dtype="<i8").view(np.uint8).reshape(count, 8)
    offsets = np.arange(0, count * size + 1, size, dtype=np.int32)
    data = pa.BinaryArray.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(octets.tobytes())]
    )
    return table.set_column(table.schema.get_field_index("data"), "data", data)


def live_ways(servers: Mapping[str, Server]) -> dict[str, list[LiveWay]]:
    """Every peer's, of the servers that run."""
    names = sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent / "peers")]))
    modules = [importlib.import_module(f"bench.peers.{name}") for name in names]
    found = {module.SERVER_NAME: module.live for module in modules if hasattr(module, "live")}
    return {name: make(servers[name]) for name, make in found.items() if name in servers}


def _show(mail: Mail, names: pa.StringArray, dealt: Numbers, *, stuck: int = 0) -> Show:
    connections = len(names)
    expected = np.bincount(dealt, minlength=connections)
    expected[:stuck] = 0
    table = numbered(mail.one_each(names.take(pa.array(dealt.astype(np.int32), pa.int32()))))
    audience = Audience([str(name) for name in names.to_pylist()], expected.tolist(), frozenset(range(stuck)))
    return Show(audience, table, dealt)

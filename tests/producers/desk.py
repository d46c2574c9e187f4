"""What the tests of numbered publishing share: a hub on an engine, and short ways to publish with numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from restante.calls.producers import ListProducers, OpenLink, ReadProducer
from restante.calls.publishing import Publish
from restante.client.surface import sync
from restante.client.transport.http_sync import HttpLink
from restante.client.transport.link import Link
from restante.client.transport.options import terms_of
from restante.errors import InvalidClientState, RestanteError
from restante.model.mailboxes.answers import ProducerState, Receipt
from restante.model.producers.producer import ProducerNumbers
from restante.model.publishing.message import Message
from restante.settings import Settings
from tests.hub.engines import ENGINES, FakeClock, WireHub
from tests.hub.letters import numbers_of

SETTINGS = Settings(partition_count=2, housekeeping_seconds=0, filing=False)
GROUP = 7
LAST = 2**31 - 1
"""The largest number; the one after it is 0."""


def link_of(hub: sync.Hub) -> Link:
    return hub._link


class Desk:
    """A hub that can be closed and opened again, and one partition of it."""

    def __init__(self, engine: str, folder: Path) -> None:
        self.clock = FakeClock()
        self._engine = ENGINES[engine](folder)
        self.hub = self._open(SETTINGS)
        self.partition = self.hub.partition_of("ada")
        self.elsewhere = 1 - self.partition
        self.stranger = next(name for name in ("ben", "cleo", "dora") if self.hub.partition_of(name) != self.partition)
        """A recipient of the other partition."""
        self.neighbour = next(name for name in ("ben", "cleo", "dora") if self.hub.partition_of(name) == self.partition)

    def _open(self, settings: Settings) -> sync.Hub:
        hub = self._engine.open(settings=settings, origins={}, clock=self.clock)
        assert isinstance(hub, sync.Hub)
        return hub

    def reopen(self, settings: Settings = SETTINGS) -> None:
        self.hub.close()
        self.hub = self._open(settings)

    def close(self) -> None:
        self.hub.close()

    @property
    def link(self) -> Link:
        return link_of(self.hub)

    @contextmanager
    def another_link(self) -> Iterator[Link]:
        """Over the network, one with connections of its own."""
        if not isinstance(self.hub, WireHub):
            yield self.link
            return
        link = HttpLink(terms_of(self.hub.running.url))
        yield link
        link.close()

    def publish(
        self, first: int, sent: object, *, group: int = GROUP, level: int = 0, partition: int | None = None
    ) -> Receipt:
        """Publish with numbers from `first` on."""
        numbers = ProducerNumbers(group=group, owner_level=level, published_sequence=first)
        return self.link.call(
            Publish.of(sent, partition=self.partition if partition is None else partition, producer=numbers)
        )

    def open_link(self, **offered: Any) -> ProducerState:
        return self.link.call(OpenLink(self.partition, **offered))

    def start_after(self, last: int, *, group: int = GROUP) -> None:
        """Make this the last number of the group, at level 1."""
        self.open_link(producer_group=group)
        self.open_link(producer_group=group, owner_level=1, last_published_sequence_number=last)

    def state(self, group: int = GROUP, partition: int | None = None) -> ProducerState:
        return self.link.call(ReadProducer(self.partition if partition is None else partition, group))

    def level_and_last(self, group: int = GROUP) -> tuple[int, int | None]:
        state = self.state(group)
        return state.owner_level, state.last_published_sequence_number

    def stored(self, recipient: str = "ada") -> list[int]:
        """What tells the stored messages apart, in their order."""
        return numbers_of(self.messages(recipient))

    def messages(self, recipient: str = "ada") -> tuple[Message, ...]:
        return self.hub.recipient(recipient).history(limit=1_000).messages

    def refuses(self, error: type[RestanteError], first: int, sent: object, **how: Any) -> dict[str, Any]:
        """The parcel is refused so, with these details, and nothing is stored or changed by it."""
        before = self._seen()
        with pytest.raises(error) as caught:
            self.publish(first, sent, **how)
        assert self._seen() == before
        assert type(caught.value) is error
        return caught.value.details

    def refuses_number(self, first: int, sent: object, *, expected: int, **how: Any) -> None:
        assert self.refuses(InvalidClientState, first, sent, **how)["expected"] == expected

    def _seen(self) -> object:
        states = [self.link.call(ListProducers(partition)).producers for partition in (0, 1)]
        kept = [[msgspec.structs.replace(one, fenced_attempts=0) for one in page] for page in states]
        return kept, [status.visible_sequence for status in self.hub.partitions()], self.messages()


def replays(receipt: Receipt) -> Receipt:
    """The receipt of a repetition of what this is the receipt of."""
    assert not receipt.replayed
    return msgspec.structs.replace(receipt, replayed=True)


def table_of(messages: Sequence[Message]) -> pa.Table:
    """The messages as columns that say all that they say."""
    fields = ("recipient", "id", "origin", "kind", "document_type", "weight", "bundleable", "media_type", "expires_at")
    columns: dict[str, Any] = {name: [getattr(message, name) for message in messages] for name in fields}
    columns["data"] = [message.data for message in messages]
    columns["properties"] = pa.array(
        [list(message.properties.items()) for message in messages], pa.map_(pa.string(), pa.string())
    )
    columns["expires_at"] = pa.array(columns["expires_at"], pa.timestamp("us", tz="UTC"))
    for name in ("id", "document_type", "media_type"):
        columns[name] = pa.array(columns[name], pa.string())
    columns["weight"] = pa.array(columns["weight"], pa.int64())
    return pa.table(columns)

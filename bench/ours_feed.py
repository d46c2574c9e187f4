"""The hub as one of those that are read from the start: by `hub.feed`, in this process and over the wire.

Beside reading everything: three columns, where the data stays where it is; and one kind of ten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

import restante
from bench.ours_wire import Restante
from bench.stream import KINDS, Read, Stream
from restante.client.surface.surface import Hub

IN_PROCESS = "restante, in process"
COLUMNS = ("sequence_number", "recipient", "id")


@dataclass(frozen=True, slots=True)
class Wish:
    """The choice of a reader."""

    columns: Sequence[str] = ()
    kinds: Sequence[str] = ()
    limit: int | None = None


WISHES = {
    "": Wish(),
    ", pages of 10,000": Wish(limit=10_000),
    ", three columns": Wish(columns=COLUMNS),
    ", one kind of ten": Wish(kinds=KINDS[:1]),
}


class _Feed(Stream):
    server = Restante.name
    name: str
    hub: Hub

    def fill(self, parcels: Sequence[pa.Table]) -> None:
        """Publish the parcels, and file them: readers from the start mostly find messages filed."""
        for parcel in parcels:
            receipt = self.hub.producer.send(parcel)
            assert receipt.accepted == parcel.num_rows, receipt
        self.hub.file()

    def ways(self) -> Mapping[str, Read]:
        return {f"{self.name}{what}": partial(self._read, wish) for what, wish in WISHES.items()}

    def close(self) -> None:
        self.hub.close()

    def _read(self, wish: Wish) -> int:
        feed = self.hub.feed(columns=wish.columns, kinds=wish.kinds, limit=wish.limit)
        return sum(page.table.num_rows for page in feed)


class InProcess(_Feed):
    name = IN_PROCESS

    def __init__(self, folder: Path) -> None:
        self.hub = restante.open(folder)


class Served(_Feed):
    """A server that has no other mail."""

    name = Restante.name

    def __init__(self, folder: Path) -> None:
        with ExitStack() as stack:
            server = stack.enter_context(closing(Restante(folder)))
            self.hub = stack.enter_context(restante.connect(server.url))
            self._started = stack.pop_all()

    def close(self) -> None:
        self._started.close()

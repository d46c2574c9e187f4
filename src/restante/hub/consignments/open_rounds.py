"""`OpenRounds`: what a hub remembers of the rounds that have their home in it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from restante.model.shards.rounds import RoundPhase, RoundRow, decode_round
from restante.model.storage.changes import Space
from restante.ports.store import StoreReader


@dataclass(slots=True)
class OpenRounds:
    """The rounds at home here that have not come to their end, as committed."""

    wanted: threading.Event = field(default_factory=threading.Event)
    rows: dict[bytes, RoundRow] = field(default_factory=dict)
    under_way: set[bytes] = field(default_factory=set)
    """The rounds that somebody in this hub is carrying out."""

    def enter(self, consignment: bytes, row: RoundRow) -> None:
        if row.phase is RoundPhase.PREPARING or row.missing:
            self.rows[consignment] = row
        else:
            self.rows.pop(consignment, None)


def load_rounds(store: StoreReader, owned: range) -> OpenRounds:
    rounds = OpenRounds()
    for partition in owned:
        for consignment, value in store.scan(partition, Space.CONSIGNMENT_ROUND):
            rounds.enter(consignment, decode_round(value))
    return rounds

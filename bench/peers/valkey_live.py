"""Valkey as one that delivers live: how it is read is in `bench.drivers.live_valkey`.

It is given every advantage that keeps writes durable: no consumer groups, streams that are new, and all XADD of a sample
packed before. They are sent without waiting, or in transactions of the size of our parcels: readers are then served after the
last command of a transaction, and the file is synced once for all of it.
"""

from __future__ import annotations

from functools import partial

from bench.drivers.live_valkey import Bare, Library, PacedBare, PacedLibrary
from bench.live import PARCEL, LiveWay
from bench.live_publishers import InBulk
from bench.peers.valkey import Valkey, ValkeyClient

SERVER_NAME = Valkey.name


def live(server: Valkey) -> list[LiveWay]:
    port = server.port
    bulk = partial(InBulk, partial(ValkeyClient, port))
    others = {"MULTI": partial(InBulk, partial(ValkeyClient, port, transaction=True), parcel=PARCEL)}
    return [
        LiveWay("valkey, library", partial(Library, port), bulk, partial(PacedLibrary, port), others),
        LiveWay("valkey, bare sockets", partial(Bare, port), bulk, partial(PacedBare, port), others),
    ]

"""NATS JetStream as one that delivers live: how it is read is in `bench.drivers.live_nats`.

It is given every advantage that keeps writes durable: consumers exist before anything is published, and all of a sample is
made into atomic batches before. Five of them are sent at a time: of a hundred at once the server refused one.
"""

from __future__ import annotations

from functools import partial

from bench.drivers.live_nats import Bare, Library, LiveNatsClient, PacedBare, PacedLibrary
from bench.live import LiveWay
from bench.live_publishers import InBulk
from bench.peers.nats import Nats

SERVER_NAME = Nats.name
WINDOW = 5_000
"""Messages that are sent before their answers are waited for."""


def live(server: Nats) -> list[LiveWay]:
    port = server.port
    bulk = partial(InBulk, partial(LiveNatsClient, port), parcel=WINDOW)
    return [
        LiveWay("nats, library", partial(Library, port), bulk, partial(PacedLibrary, port)),
        LiveWay("nats, bare sockets", partial(Bare, port), bulk, partial(PacedBare, port)),
    ]

"""The hub as one that delivers live: how it is read is in `bench.drivers.live_restante`."""

from __future__ import annotations

from functools import partial

from bench.drivers.live_restante import Bare, Client, PacedClient
from bench.live import PARCEL, LiveWay
from bench.live_publishers import InBulk
from bench.ours_wire import Restante, RestanteClient


def live(server: Restante) -> list[LiveWay]:
    return [_way("restante", partial(Client, server.url), server), bare(server)]


def bare(server: Restante, *, parcel: int = PARCEL) -> LiveWay:
    return _way("restante, bare sockets", partial(Bare, server.port), server, parcel)


def _way(name: str, receiver: partial[Client] | partial[Bare], server: Restante, parcel: int = PARCEL) -> LiveWay:
    bulk = partial(InBulk, partial(RestanteClient, server.url), parcel=parcel)
    return LiveWay(name, receiver, bulk, partial(PacedClient, server.url))

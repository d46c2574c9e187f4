"""RabbitMQ as one that delivers live, where it is installed: how it is read is in `bench.drivers.live_rabbitmq`."""

from __future__ import annotations

from functools import partial

from bench.drivers.live_rabbitmq import Library, LiveRabbitmqClient, PacedLibrary
from bench.live import LiveWay
from bench.live_publishers import InBulk
from bench.peers.rabbitmq import Rabbitmq

SERVER_NAME = Rabbitmq.name


def live(server: Rabbitmq) -> list[LiveWay]:
    port = server.port
    bulk = partial(InBulk, partial(LiveRabbitmqClient, port))
    return [LiveWay("rabbitmq, library", partial(Library, port), bulk, partial(PacedLibrary, port))]

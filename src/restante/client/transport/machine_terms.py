"""The terms of a client in this process: the clock and the randomness of the machine."""

from __future__ import annotations

import os
import random
import time

from restante.client.nodes.hub_places import HubPlaces
from restante.client.transport.address import addresses_of
from restante.client.transport.options import Retrying, Terms, checked_timeout, retrying_of
from restante.client.transport.words import warn
from restante.limits import CLIENT_TIMEOUT_SECONDS

RETRYING = Retrying()
"""The default."""


def terms_of(
    url: str,
    *,
    token: str | None = None,
    timeout: float = CLIENT_TIMEOUT_SECONDS,
    retries: int | Retrying = RETRYING,
) -> Terms:
    """The terms of a client in this process, checked."""
    addresses = addresses_of(url, token=token)
    return Terms(
        address=addresses[0],
        places=HubPlaces(addresses, time.monotonic, random.random()),
        timeout=checked_timeout(timeout),
        retrying=retrying_of(retries),
        clock=time.monotonic,
        now_ms=lambda: time.time_ns() // 1_000_000,
        chance=random.random,
        random=os.urandom,
        tell=warn,
    )

"""`Retrying`: how often a client repeats a call. `Terms`: what a call needs besides its arguments, made by `terms_of`."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from restante import limits
from restante.client.nodes.hub_places import HubPlaces
from restante.client.transport.address import HubAddress, addresses_of
from restante.client.transport.unreachable import warn
from restante.errors import InvalidRequest
from restante.limits import CLIENT_TIMEOUT_SECONDS
from restante.model.back_off import back_off


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrying:
    """The way a client repeats a call that did not reach the hub, got no answer in time, or was refused temporarily.

    Repeating is safe, because the hub recognises repeated messages by their ids.
    """

    times: int = limits.CLIENT_RETRIES
    """How often a call is repeated after the first attempt; 0 means never."""
    seconds: float = limits.CLIENT_RETRY_SECONDS
    """No attempt begins later than this many seconds after the first."""
    first_pause: float = 0.1
    """Seconds before the second attempt. The pause doubles each time, and is shortened at random by up to half."""
    longest_pause: float = 5.0
    """The longest pause, in seconds. If the hub asks for a longer one, the client waits that long instead."""

    def __post_init__(self) -> None:
        _check_times(self.times)
        for name in ("seconds", "first_pause", "longest_pause"):
            _check_seconds(name, getattr(self, name), least=0)

    def pause(self, attempt: int, chance: float) -> float:
        """Seconds to wait after `attempt` attempts. `chance` is between 0 and 1."""
        return back_off(attempt, first=self.first_pause, longest=self.longest_pause, chance=chance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The context that calls need besides their arguments: the hub's addresses, retrying, clocks and randomness."""

    address: HubAddress
    """The first address that was given; errors name it."""
    places: HubPlaces
    """All known addresses."""
    timeout: float
    """Seconds for an answer, in addition to the `wait` of a peek."""
    retrying: Retrying
    clock: Callable[[], float]
    """A monotonic clock, in seconds."""
    now_ms: Callable[[], int]
    """Milliseconds since 1970."""
    chance: Callable[[], float]
    """Between 0 and 1."""
    random: Callable[[int], bytes]
    tell: Callable[[str], None]
    """A function that is called with a text for the user when a call is repeated."""


def checked_timeout(timeout: float) -> float:
    _check_seconds("timeout", timeout, least=0.001)
    return float(timeout)


def retrying_of(retries: int | Retrying) -> Retrying:
    """The `Retrying` for a number of repetitions, or the one given."""
    return retries if isinstance(retries, Retrying) else Retrying(times=retries)


def _check_times(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidRequest(f"retries must be a number from 0, not {value!r}.")


def _check_seconds(name: str, value: object, *, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < least:
        raise InvalidRequest(f"{name} is a number of seconds, at least {least:g}, not {value!r}.")


RETRYING = Retrying()
"""The default."""


def terms_of(
    url: str,
    *,
    token: str | None = None,
    timeout: float = CLIENT_TIMEOUT_SECONDS,
    retries: int | Retrying = RETRYING,
) -> Terms:
    """Check the arguments of a client, and make its terms."""
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

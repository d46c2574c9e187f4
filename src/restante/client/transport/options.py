"""How patient a client is, as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from restante import limits
from restante.client.transport.address import HubAddress
from restante.errors import InvalidRequest
from restante.model.back_off import back_off


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrying:
    """How a call is tried again that did not reach the hub, got no answer in time, or was told to come later.

    Each repetition is safe: what it repeats is known by its ids.
    """

    times: int = limits.CLIENT_RETRIES
    """How often after the first attempt; 0 is never."""
    seconds: float = limits.CLIENT_RETRY_SECONDS
    """No attempt begins later than so long after the first."""
    first_pause: float = 0.1
    """Seconds before the second attempt. The pause doubles each time, less up to half of it, by chance."""
    longest_pause: float = 5.0
    """Seconds. A hub that names a time itself is waited for as it says."""

    def __post_init__(self) -> None:
        _check_times(self.times)
        for name in ("seconds", "first_pause", "longest_pause"):
            _check_seconds(name, getattr(self, name), least=0)

    def pause(self, attempt: int, chance: float) -> float:
        """Seconds to wait after so many attempts. `chance` lies between 0 and 1."""
        return back_off(attempt, first=self.first_pause, longest=self.longest_pause, chance=chance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """All that a call needs to know beside its arguments: the hub's address, patience, time and chance."""

    address: HubAddress
    timeout: float
    """Seconds for an answer, beyond those that a peek is to wait at the hub."""
    retrying: Retrying
    clock: Callable[[], float]
    """Seconds since whenever."""
    now_ms: Callable[[], int]
    """Milliseconds since 1970."""
    chance: Callable[[], float]
    """Between 0 and 1."""
    random: Callable[[int], bytes]
    tell: Callable[[str], None]
    """Hears, for people, that a call is being tried again."""


def checked_timeout(timeout: float) -> float:
    _check_seconds("timeout", timeout, least=0.001)
    return float(timeout)


def retrying_of(retries: int | Retrying) -> Retrying:
    """So many repetitions, or all of it."""
    return retries if isinstance(retries, Retrying) else Retrying(times=retries)


def _check_times(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidRequest(f"retries must be a number from 0, not {value!r}.")


def _check_seconds(name: str, value: object, *, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < least:
        raise InvalidRequest(f"{name} is a number of seconds, at least {least:g}, not {value!r}.")

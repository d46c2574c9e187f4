"""Rates of the last hour: a sample every few seconds, kept in memory, for plots."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from itertools import islice
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from restante.calls.mailboxes import ListPartitions
from restante.decoders import converted
from restante.errors import Unavailable
from restante.hub.door.hub import OpenHub
from restante.limits import RATE_SAMPLES_MAX, RATE_SECONDS
from restante.server.health.metrics import Metrics
from restante.server.live.connected_clients import ConnectedClients

_log = logging.getLogger("restante.server")


class RateSample(NamedTuple):
    """One sample: what happened since the one before, and how much there was then."""

    at: float
    accepted: int
    collected: int
    waiting: int
    commits: int
    commit_ms: float | None
    requests: int
    request_ms: float | None
    failures: int
    connections: int


class RateHistory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Samples as columns, the oldest first. Counts are of the seconds before `at`."""

    seconds: Annotated[float, Meta(description="How long each sample is.")]
    next: Annotated[int, Meta(ge=0, description="The `after` that leaves out what was read.")]
    at: Annotated[list[float], Meta(description="Seconds since 1970 UTC.")]
    accepted: Annotated[list[int], Meta(description="Messages stored.")]
    collected: Annotated[list[int], Meta(description="Messages dequeued.")]
    waiting: Annotated[list[int], Meta(description="Messages that wait at that moment.")]
    commits: Annotated[list[int], Meta(description="Commits.")]
    commit_ms: Annotated[list[float | None], Meta(description="Milliseconds that the store took for one, on average.")]
    requests: Annotated[list[int], Meta(description="Requests answered.")]
    request_ms: Annotated[list[float | None], Meta(description="Milliseconds that one took which did not wait.")]
    failures: Annotated[list[int], Meta(description="Requests that the hub failed.")]
    connections: Annotated[list[int], Meta(description="Clients connected for live delivery at that moment.")]


class _Totals(NamedTuple):
    """Numbers that only grow."""

    accepted: int
    collected: int
    commits: int
    commit_seconds: float
    requests: int
    quick: int
    quick_seconds: float
    failures: int


class Rates:
    """Samples of the requests to one server or door. They are taken and read in the event loop."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._samples: deque[RateSample] = deque(maxlen=RATE_SAMPLES_MAX)
        self._taken = 0
        self._last = _Totals(0, 0, 0, 0.0, 0, 0, 0.0, 0)

    async def run(self) -> None:
        """Take a sample every few seconds, until it is cancelled."""
        self._last = self._totals()
        while True:
            await asyncio.sleep(RATE_SECONDS)
            try:
                self.take()
            except Unavailable as error:
                _log.info("No sample of the rates: %s", error.message)
            except Exception:  # noqa: BLE001  # whatever it is, the next sample may come out
                _log.exception("A sample of the rates could not be taken.")

    def take(self) -> None:
        """Add what happened since the last sample."""
        last, now = self._last, self._totals()
        self._last = now
        self._taken += 1
        self._samples.append(
            RateSample(
                at=round(time.time(), 3),
                accepted=now.accepted - last.accepted,
                collected=now.collected - last.collected,
                waiting=self._waiting(),
                commits=now.commits - last.commits,
                commit_ms=_mean_ms(now.commit_seconds - last.commit_seconds, now.commits - last.commits),
                requests=now.requests - last.requests,
                request_ms=_mean_ms(now.quick_seconds - last.quick_seconds, now.quick - last.quick),
                failures=now.failures - last.failures,
                connections=self._connections(),
            )
        )

    def history(self, after: int) -> RateHistory:
        """The samples after so many; all that are kept, if that is longer ago."""
        first = self._taken - len(self._samples)
        chosen = islice(self._samples, max(0, after - first), None)
        columns = zip(*chosen, strict=True)
        named = dict(zip(RateSample._fields, map(list, columns), strict=False))
        empty: dict[str, list[object]] = {name: [] for name in RateSample._fields}
        return converted({"seconds": RATE_SECONDS, "next": self._taken, **empty, **named}, RateHistory)

    def _totals(self) -> _Totals:
        metrics, api = self._metrics, self._metrics.api
        return _Totals(
            accepted=metrics.accepted.value,
            collected=metrics.collected.value,
            commits=0,
            commit_seconds=0.0,
            requests=api.requests,
            quick=api.quick,
            quick_seconds=api.quick_seconds,
            failures=api.failures,
        )

    def _waiting(self) -> int:
        return 0

    def _connections(self) -> int:
        return 0


class HubRates(Rates):
    """The samples of a server with a hub."""

    def __init__(self, hub: OpenHub, metrics: Metrics, post: ConnectedClients) -> None:
        super().__init__(metrics)
        self._hub = hub
        self._post = post

    def _totals(self) -> _Totals:
        asked, (commits, seconds) = super()._totals(), self._hub.commit_totals
        accepted = asked.accepted + self._hub.consignment_totals().accepted
        return asked._replace(accepted=accepted, commits=commits, commit_seconds=seconds)

    def _waiting(self) -> int:
        return sum(status.waiting for status in self._hub.call(ListPartitions()))

    def _connections(self) -> int:
        return len(self._post)


def _mean_ms(seconds: float, count: int) -> float | None:
    return round(1_000 * seconds / count, 3) if count else None

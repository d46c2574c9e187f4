"""Measures of every hub: its store, its commits, its filing, its threads, and the origins and webhooks that it calls."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

from restante import limits
from restante.hub.batches.memory import BatchMemory
from restante.hub.engine.core import Core
from restante.hub.engine.health_sources import HealthSources
from restante.hub.mailboxes.origins import Origins
from restante.model.health.bounds import Measure, RateWindow, Reading, flag, mean


def measure_hub(core: Core) -> None:
    """Register what can be measured without knowing who serves the hub."""
    sources = core.memory(HealthSources)
    sources.register("store", lambda: _store(core))
    sources.register("store", _commit_times(core))
    sources.register("committer", lambda: _committer(core))
    sources.register("committer", _commit_failures(core))
    sources.register("filing", lambda: _unfiled(core))
    sources.register("origins", _origin_failures(core))
    sources.register("webhooks", _notice_failures(core))


def _store(core: Core) -> Iterator[Reading]:
    failure = core.store.failure()
    yield flag("stopped", None if failure is None else f"The store has stopped: {failure}. Start the hub again.")
    full = core.committer.seconds_without_room() < limits.NO_ROOM_SECONDS
    yield flag("no_room", "The last commit found no room. Make room for the data folder." if full else None)


def _commit_times(core: Core) -> Measure:
    window = RateWindow()

    def measure() -> Iterator[Reading]:
        totals = core.committer.totals
        commits, seconds = window.added(monotonic(), (totals.commits, totals.seconds))
        took = mean(seconds * 1_000, commits)
        if took is not None:
            yield Reading(name="store_commit", value=took, unit="ms")

    return measure


def _committer(core: Core) -> Iterator[Reading]:
    dead = None if core.committer.alive else "The hub no longer commits. Its log says why; start it again."
    yield flag("dead_threads", dead)


def _commit_failures(core: Core) -> Measure:
    window = RateWindow()

    def measure() -> Iterator[Reading]:
        totals = core.committer.totals
        _, failed = window.added(monotonic(), (totals.commits, totals.failures))
        yield _failures(failed)

    return measure


def _failures(count: float) -> Reading:
    return Reading(name="failures", value=count, unit="per_minute")


def _unfiled(core: Core) -> Iterator[Reading]:
    most = max(core.partitions, key=lambda partition: partition.unfiled)
    reason = f"Partition {most.number} has {most.unfiled} unfiled runs."
    yield Reading(name="unfiled_runs", value=most.unfiled, unit="runs", reason=reason)


def _origin_failures(core: Core) -> Measure:
    window = RateWindow()

    def measure() -> Iterator[Reading]:
        origins = core.memory(Origins)
        calls, failed = window.added(monotonic(), (origins.calls, origins.calls_failed))
        if calls:
            yield _failures(failed)

    return measure


def _notice_failures(core: Core) -> Measure:
    window = RateWindow()

    def measure() -> Iterator[Reading]:
        memory = core.memory(BatchMemory)
        delivered, failed = sum(memory.notices_delivered.values()), sum(memory.notices_failed.values())
        told, not_told = window.added(monotonic(), (delivered, failed))
        if told or not_told:
            yield _failures(not_told)

    return measure

"""Counting a batch down: four workers acknowledge its items over the wire, some of them twice, until it is complete.

A `Tally` is one way to count, on one of the servers of the run; its file in `bench.peers` has it in `TALLIES`. It opens
a batch and makes `Worker`s, which live in processes of their own (`bench.load`) and send calls. This module has what is the
same for all ways: which worker acknowledges which items, in what order, how many calls are under way, and the checks at the end.
"""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.load import DriverProcess
from bench.server import Server

WORKERS = 4
TWICE = 0.1
"""The part of the items that two workers acknowledge."""
SEED = 6

Indices = NDArray[np.int64]
Calls = Sequence[Indices]
"""The indices of the items, call by call."""
Request = TypeVar("Request")


class Answer(NamedTuple):
    """The answer to a call: how many items it was the first to acknowledge, if the way says so, and whether all is done."""

    newly: int | None
    complete: bool


class Call(NamedTuple):
    """One call of a worker, by a clock that all processes of the machine share."""

    sent: float
    answered: float
    newly: int | None
    complete: bool


class Report(NamedTuple):
    """The report of a worker: its calls, and how many of its answers said that it has completed the batch."""

    calls: list[Call]
    completions: int


@dataclass(frozen=True, slots=True)
class Share:
    """The share of one worker: calls with the indices of their items, and how many of them are under way at a time."""

    batch: Any
    calls: Calls
    depth: int


class Worker(Generic[Request]):
    """A client in a process of its own. Subclasses say how a call is encoded and how calls are sent."""

    claims: ClassVar[bool] = True
    """Whether several calls may learn of the completion, so that one of them has to claim it."""

    def __init__(self) -> None:
        self._windows: list[list[Request]] = []

    def begin(self, batch: Any) -> None:
        """Not timed: which batch is acknowledged next."""
        raise NotImplementedError

    def warm_up(self, depth: int) -> None:
        """Not timed: whatever is needed for so many calls under way."""

    def encode(self, indices: Sequence[int]) -> Request:
        """Not timed: the ids of one call, as the tasks that carried them would have handed them over."""
        raise NotImplementedError

    def send(self, requests: Sequence[Request]) -> Sequence[Answer]:
        """Send so many calls that are under way together: their answers, in order."""
        raise NotImplementedError

    def claim(self) -> bool:
        """Claim the completion, after an answer that says that all is done. True for exactly one worker."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def prepare(self, share: Share) -> None:
        self.begin(share.batch)
        self.warm_up(share.depth)
        requests = [self.encode(indices.tolist()) for indices in share.calls]
        self._windows = [requests[first : first + share.depth] for first in range(0, len(requests), share.depth)]

    def run(self) -> Report:
        calls: list[Call] = []
        told = completions = 0
        for window in self._windows:
            sent = time.perf_counter()
            answers = self.send(window)
            if self.claims and not told and any(answer.complete for answer in answers):
                told, completions = 1, int(self.claim())
            answered = time.perf_counter()
            calls += [Call(sent, answered, *answer) for answer in answers]
        return Report(calls, completions)


class Tally:
    """A way to count down, on a server that is up."""

    name: ClassVar[str]
    server: ClassVar[str]
    """The name of the server it needs."""

    def __init__(self, server: Any) -> None:
        raise NotImplementedError

    def open(self, items: int) -> Any:
        """Not timed: a batch of so many items, all pending, and sealed; gives what a worker needs to know of it."""
        raise NotImplementedError

    def worker(self) -> Callable[[], Worker[Any]]:
        """Connects a worker; can be pickled."""
        raise NotImplementedError

    def pending(self, batch: Any) -> int:
        """Not timed: how many items are not acknowledged, as the server has it in the end."""
        raise NotImplementedError

    def completions(self, batch: Any) -> int:
        """Not timed: how often it was recorded to be complete, beside the claims of the workers."""
        del batch
        return 0

    def drop(self, batch: Any) -> None:
        """Not timed: forget the batch, and do what was left for the background."""
        raise NotImplementedError

    def close(self) -> None: ...


class Crew:
    """The workers of a tally, each in a process of its own, which stays up through all samples."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._stack = ExitStack()
        self._batch: Any = None
        self._shares: list[Calls] = []
        self._items = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._tally.close)
            self._workers = [stack.enter_context(DriverProcess(self._tally.worker())) for _ in range(WORKERS)]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._stack.__exit__(*failure)

    def prepare(self, items: int, *, size: int, depth: int) -> None:
        """Not timed: a batch, and every worker with its calls made ready."""
        if self._batch is not None:
            self._tally.drop(self._batch)
        self._batch = self._tally.open(items)
        self._items = items
        self._shares = deal(items, size=size)
        for worker, share in zip(self._workers, self._shares, strict=True):
            worker.tell(Share(self._batch, share, depth))
        for worker in self._workers:
            worker.answer()

    def run(self) -> float:
        """The time from the first call of any worker until the last is answered, which knows that the batch is complete."""
        for worker in self._workers:
            worker.tell(None)
        reports: list[Report] = [worker.answer() for worker in self._workers]
        check(self._items, self._shares, reports, recorded=self._tally.completions(self._batch))
        left = self._tally.pending(self._batch)
        assert not left, f"{self._tally.name} says that {left} items are pending"
        calls = [call for report in reports for call in report.calls]
        return max(call.answered for call in calls) - min(call.sent for call in calls)


def deal(items: int, *, size: int, seed: int = SEED) -> list[Calls]:
    """The calls of each worker, of so many items, in random order; a tenth of the items goes to two workers."""
    random = np.random.default_rng(seed)
    order = random.permutation(items)
    owners = np.arange(items) % WORKERS
    again = random.permutation(items)[: int(items * TWICE)]
    others = (owners[again] + random.integers(1, WORKERS, len(again))) % WORKERS
    shares = [
        random.permutation(np.concatenate([order[owners == worker], order[again[others == worker]]]))
        for worker in range(WORKERS)
    ]
    return [[share[first : first + size] for first in range(0, len(share), size)] for share in shares]


def check(items: int, shares: Sequence[Calls], reports: Sequence[Report], *, recorded: int = 0) -> None:
    """Exactly one completion: not before every item was on its way, told to a last call, and nothing counted twice."""
    first_sent = np.full(items, np.inf)
    for share, report in zip(shares, reports, strict=True):
        for indices, call in zip(share, report.calls, strict=True):
            first_sent[indices] = np.minimum(first_sent[indices], call.sent)
    calls = [call for report in reports for call in report.calls]
    told = [call for call in calls if call.complete]
    assert told, "nobody was told that the batch is complete"
    known = min(call.answered for call in told)
    assert known >= first_sent.max(), "told to be complete while items had not been acknowledged"
    assert all(call.complete for call in calls if call.sent > known), "complete, and then no longer"
    completions = recorded + sum(report.completions for report in reports)
    assert completions == 1, f"completed {completions} times"
    newly = [call.newly for call in calls]
    if None not in newly:
        assert sum(number or 0 for number in newly) == items, f"{items} items, {newly} counted"


def kinds_of_tallies() -> list[type[Tally]]:
    """Every peer's ways to count."""
    names = sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent / "peers")]))
    modules = [importlib.import_module(f"bench.peers.{name}") for name in names]
    return [kind for module in modules for kind in getattr(module, "TALLIES", ())]


def tallies(servers: Mapping[str, Server], kinds: Sequence[type[Tally]]) -> list[Tally]:
    """The ways that the servers of this run allow."""
    return [kind(servers[kind.server]) for kind in kinds if kind.server in servers]

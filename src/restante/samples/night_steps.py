"""The parts of every sample night: steps that are timed, mailboxes emptied side by side, a batch that is watched."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from restante.client.surface.surface import Batch
from restante.model.batches.batch_answers import BatchStatus

COLLECTORS = 16
_LOOK_SECONDS = 0.2

Advance = Callable[[int], None]
WatchStep = Callable[[str, int], AbstractContextManager[Advance]]
"""Shows a step: its name and how many messages it is about; inside, called with each number of messages done."""


class NightStep(msgspec.Struct, kw_only=True):
    """One line of the table."""

    step: str
    messages: int
    seconds: float = 0.0
    detail: str = ""

    @property
    def rate(self) -> float:
        return self.messages / max(self.seconds, 1e-9)


class LateRecipient(msgspec.Struct, frozen=True, kw_only=True):
    """A recipient that has not collected all of its messages of the batch."""

    recipient: str
    waiting: int
    since: datetime
    """When the oldest of them was published."""
    why: str


class NightResult(msgspec.Struct, kw_only=True):
    """The result of a night. `wrong` is empty when everything arrived exactly once and in order."""

    messages: int
    recipients: int
    bundles: int = 0
    duplicates: int = 0
    steps: list[NightStep] = []
    wrong: list[str] = []
    explained: str = ""
    """Why a peek of the first recipient answers nothing, once everything is collected."""
    late: list[LateRecipient] = []
    """The recipients that had not collected when the others were done, and why."""
    batch: BatchStatus | None = None
    """The batch that all messages are bound to, when everything was collected."""
    last: str = ""
    """The recipient that was done last."""


class PlotPoint(NamedTuple):
    """A point of the plot."""

    seconds: float
    """Since everything was delivered."""
    collected: int
    """How many messages were collected by then."""


class SettledNight(NightResult, kw_only=True):
    """The result of a night, with what the tables say about it."""

    readings: int = 0
    settlement: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """The settlement, by product."""
    report: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """The rows of the collection report, the slowest actors first."""
    collected: list[PlotPoint] = msgspec.field(default_factory=list)
    tables: str = ""


@contextmanager
def timed(night: NightResult, watch: WatchStep, name: str, messages: int) -> Iterator[tuple[NightStep, Advance]]:
    """A step of the night, with what shows how far it is."""
    step = NightStep(step=name, messages=messages)
    with watch(name, messages) as advance:
        started = time.perf_counter()
        yield step, advance
        step.seconds = time.perf_counter() - started
    night.steps.append(step)


class Walk(Protocol):
    """A collector, which empties one mailbox after another."""

    def walk(self) -> None: ...


W = TypeVar("W", bound=Walk)


def side_by_side(names: Sequence[str], walker: Callable[[Sequence[str]], W]) -> list[W]:
    """Share the mailboxes among the collectors, and wait until all collectors are done."""
    walkers = [walker(names[number::COLLECTORS]) for number in range(COLLECTORS)]
    with ThreadPoolExecutor(COLLECTORS, "restante-collector") as threads:
        for done in [threads.submit(one.walk) for one in walkers]:
            done.result()
    return walkers


@contextmanager
def followed(batch: Batch, watch: WatchStep, messages: int) -> Iterator[None]:
    """Shows how far the batch is while the collectors, which do not know the batch, are at work."""
    ended = threading.Event()
    with watch("batch", messages) as advance, ThreadPoolExecutor(1, "restante-night") as threads:
        following = threads.submit(_follow, batch, advance, ended)
        try:
            yield
        finally:
            ended.set()
        following.result()


def _follow(batch: Batch, advance: Advance, ended: threading.Event) -> None:
    shown, last = 0, False
    while not last:
        last = ended.wait(_LOOK_SECONDS)
        seen = batch.status()
        advance(seen.items - seen.pending - shown)
        shown = seen.items - seen.pending

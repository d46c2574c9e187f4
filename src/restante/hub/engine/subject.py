"""`HubSubject` is all that one subject registers with a hub, stated in the folder of the subject.

`hub/door/subjects.py` lists the subjects, and opens, runs and closes them by these values alone. A subject that adds to the
memory of another one does so in its own `open`, and stands after it in the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from restante.calls.call import Call
from restante.hub.engine.core import Core
from restante.hub.engine.procedures import Functions
from restante.hub.engine.tasks import Chore, Task
from restante.model.health.hub_metric import HubMetric
from restante.model.storage.changes import Space
from restante.ports.backplane import Backplane
from restante.ports.content import OriginPort
from restante.ports.counters import Counters
from restante.ports.store import StoreReader
from restante.ports.webhook import PostWebhook


@dataclass(frozen=True, slots=True)
class Opening:
    """The rows that a hub reads when it is opened, and the ports that it was given for its subjects."""

    rows: StoreReader
    origins: Mapping[str, OriginPort]
    counters: Counters | None = None
    post_webhook: PostWebhook | None = None
    backplane: Backplane | None = None


def _nothing(*_: object) -> None:
    """The default for subjects that have nothing to do."""


def _no_metrics(_: Core) -> tuple[HubMetric, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class HubSubject:
    """One subject of the hub: its calls, its memory, its metrics and its background work."""

    functions: Functions = field(default_factory=dict)
    """The functions that answer its calls. They replace those of subjects before it for the same calls."""
    reading: tuple[type[Call[Any]], ...] = ()
    """The calls among them that are answered without a commit, or may be repeated after one, as `Peek`."""
    spaces: tuple[Space, ...] = ()
    """The spaces of which `open` and `begin` read all rows; they are fetched at once."""
    open: Callable[[Core, Opening], None] = _nothing
    """Loads its memory and wires it to that of other subjects, before the first commit."""
    begin: Callable[[Core, Opening], None] = _nothing
    """Finishes with commits what a crash interrupted, before the first call."""
    close: Callable[[Core], None] = _nothing
    """Closes what it was given, after the last commit."""
    metrics: Callable[[Core], Iterable[HubMetric]] = _no_metrics
    """The function that gives its metrics, from memory alone."""
    tasks: tuple[Task, ...] = ()
    chores: tuple[Chore, ...] = ()
    """Work that the housekeeping does now and then."""
    last_chores: tuple[Chore, ...] = ()
    """Chores that are done once more when the hub is closed, unless another owner takes its partitions over."""

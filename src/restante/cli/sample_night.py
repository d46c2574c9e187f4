"""A sample night: a producer publishes, the hub files, every recipient collects and confirms.

It is played on any hub, in this process or far away, and each night has recipients of its own. Each message carries its own place in the night, so that the recipients can tell whether everything arrived, exactly
once and in order. Nothing here prints: `tour` shows what happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.cli.showing import counted
from restante.client.surface import Bundle, Hub
from restante.model.arrow import Column, bytes_of, column_of, offsets_of, string_array

PARCEL_MESSAGES = 10_000
DATA_BYTES = 200
_COLLECTORS = 16
_KINDS = ("letter", "invoice")

Advance = Callable[[int], None]
Watch = Callable[[str, int], AbstractContextManager[Advance]]
"""Shows a step: its name and how many messages it is about; inside, called with each number of messages done."""


class Step(msgspec.Struct, kw_only=True):
    """One line of the table."""

    step: str
    messages: int
    seconds: float = 0.0
    detail: str = ""

    @property
    def rate(self) -> float:
        return self.messages / max(self.seconds, 1e-9)


class Night(msgspec.Struct, kw_only=True):
    """What happened. `wrong` is empty when everything arrived exactly once and in order."""

    messages: int
    recipients: int
    bundles: int = 0
    duplicates: int = 0
    steps: list[Step] = []
    wrong: list[str] = []
    explained: str = ""
    """Why the last peek of the first recipient answered nothing."""


@dataclass(slots=True)
class Post:
    """The mail of the night: made in parcels, the same each time it is asked for."""

    messages: int
    recipients: int
    seed: int = field(default_factory=time.time_ns)

    @property
    def names(self) -> list[str]:
        """Of this night only: what an earlier one left is not in its way."""
        night = np.base_repr(self.seed, 36).lower()
        return [f"night-{night}-recipient-{number:06d}" for number in range(self.recipients)]

    def parcels(self) -> Iterator[pa.Table]:
        for first in range(0, self.messages, PARCEL_MESSAGES):
            yield self.parcel(first)

    def parcel(self, first: int) -> pa.Table:
        """The messages from `first` on, with ids of their own: whoever sends them again sends the same."""
        places = np.arange(first, min(first + PARCEL_MESSAGES, self.messages))
        data = np.zeros((len(places), DATA_BYTES), np.uint8)
        data[:, :8] = places.astype("<i8").view(np.uint8).reshape(-1, 8)
        return pa.table(
            {
                "id": _fixed(self._ids(first, len(places))),
                "recipient": _named(places % self.recipients, self.names),
                "kind": _named(places // self.recipients % 4 == 0, _KINDS),
                "data": _fixed(data).cast(pa.binary()),
            }
        )

    def _ids(self, first: int, count: int) -> NDArray[np.uint8]:
        """Random UUIDs (version 4), always the same for the same messages of the same night."""
        ids = np.random.default_rng([self.seed, first]).integers(0, 256, (count, 16), np.uint8)
        ids[:, 6] = ids[:, 6] & 0x0F | 0x40
        ids[:, 8] = ids[:, 8] & 0x3F | 0x80
        return ids


def _fixed(matrix: NDArray[np.uint8]) -> Column:
    """Each row of the matrix as a value of that many bytes."""
    buffers: list[Column] = [None, pa.py_buffer(matrix.tobytes())]
    return pa.Array.from_buffers(pa.binary(matrix.shape[1]), len(matrix), buffers)


def _named(codes: NDArray[np.integer[Any] | np.bool_], names: Sequence[str]) -> Column:
    return pa.DictionaryArray.from_arrays(column_of(codes.astype(np.int32)), string_array(names))


def play(hub: Hub, post: Post, watch: Watch) -> Night:
    """The whole night."""
    night = Night(messages=post.messages, recipients=post.recipients)
    for act in (_publish, _publish_again, _file, _collect):
        act(hub, post, night, watch)
    _explain(hub, post, night)
    return night


@contextmanager
def _timed(night: Night, watch: Watch, name: str, messages: int) -> Iterator[tuple[Step, Advance]]:
    step = Step(step=name, messages=messages)
    with watch(name, messages) as advance:
        started = time.perf_counter()
        yield step, advance
        step.seconds = time.perf_counter() - started
    night.steps.append(step)


def _publish(hub: Hub, post: Post, night: Night, watch: Watch) -> None:
    with _timed(night, watch, "publish", post.messages) as (step, advance):
        accepted = 0
        for parcel in post.parcels():
            accepted += hub.producer.send(parcel).accepted
            advance(parcel.num_rows)
    step.detail = f"parcels of {PARCEL_MESSAGES:,}, each on the disk before it was acknowledged"
    if accepted != post.messages:
        night.wrong.append(f"{accepted:,} of {post.messages:,} messages were accepted.")


def _publish_again(hub: Hub, post: Post, night: Night, watch: Watch) -> None:
    parcel = post.parcel(0)
    with _timed(night, watch, "publish a parcel again", parcel.num_rows) as (step, advance):
        night.duplicates = hub.producer.send(parcel).duplicates
        advance(parcel.num_rows)
    step.detail = f"all {night.duplicates:,} known by their ids and skipped: a retry stores nothing twice"
    if night.duplicates != parcel.num_rows:
        night.wrong.append(f"{night.duplicates:,} of {parcel.num_rows:,} messages sent again were skipped.")


def _file(hub: Hub, post: Post, night: Night, watch: Watch) -> None:
    with _timed(night, watch, "file", post.messages) as (step, advance):
        merged = hub.file()
        advance(post.messages)
    step.detail = f"{merged:,} mailbags merged into sorted shelves; no number and no mailbox changed"


def _collect(hub: Hub, post: Post, night: Night, watch: Watch) -> None:
    with _timed(night, watch, "collect and confirm", post.messages) as (step, advance):
        rounds = [_Round(hub, post.names[number::_COLLECTORS], advance) for number in range(_COLLECTORS)]
        with ThreadPoolExecutor(_COLLECTORS) as threads:
            for done in [threads.submit(one.walk) for one in rounds]:
                done.result()
    night.bundles = sum(one.bundles for one in rounds)
    step.detail = f"{night.bundles:,} bundles, each peeked and then dequeued in a commit of its own"
    night.wrong += [text for one in rounds for text in one.wrong]
    night.wrong += _missing([places for one in rounds for places in one.places], post.messages)


def _missing(places: Sequence[NDArray[np.int64]], messages: int) -> Iterator[str]:
    """Everything arrives exactly once."""
    times = np.bincount(np.concatenate([np.zeros(0, np.int64), *places]), minlength=messages)
    for wrong, text in ((times == 0, "never arrived"), (times > 1, "arrived more than once")):
        if wrong.any():
            yield f"{counted(int(wrong.sum()), 'message')} {text}, the first at place {int(np.argmax(wrong)):,}."


class _Round:
    """One of those who collect, on the way from mailbox to mailbox."""

    def __init__(self, hub: Hub, names: Sequence[str], advance: Advance) -> None:
        self._hub, self._names, self._advance = hub, names, advance
        self.bundles = 0
        self.places: list[NDArray[np.int64]] = []
        self.wrong: list[str] = []

    def walk(self) -> None:
        for name in self._names:
            last = dict.fromkeys(_KINDS, -1)
            for bundle in self._hub.recipient(name).bundles(idle=0):
                self._take(bundle, last)
                bundle.dequeue()

    def _take(self, bundle: Bundle, last: dict[str, int]) -> None:
        """Note what has come, and whether it is in the order in which it was sent."""
        places = _places(bundle.table)
        if not (np.diff(places, prepend=last[bundle.kind]) > 0).all():
            self.wrong.append(f"{bundle.recipient} got its {bundle.kind}s out of order.")
        last[bundle.kind] = int(places[-1])
        self.places.append(places)
        self.bundles += 1
        self._advance(len(places))


def _places(table: pa.Table) -> NDArray[np.int64]:
    """The first eight bytes of each message's data."""
    parts = []
    for chunk in table.column("data").chunks:
        starts = offsets_of(chunk)[:-1] - offsets_of(chunk)[0]
        parts.append(bytes_of(chunk)[starts[:, None] + np.arange(8)].view("<i8")[:, 0])
    return np.concatenate(parts)


def _explain(hub: Hub, post: Post, night: Night) -> None:
    name = post.names[0]
    explanation = hub.recipient(name).explain()
    night.explained = f"{name}: {explanation.reason.value}. {explanation.text}"
    if explanation.waiting:
        waiting = sum(cabinet.messages for cabinet in explanation.waiting)
        night.wrong.append(f"{waiting:,} messages of {name} still wait.")

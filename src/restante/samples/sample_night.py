"""A sample night: a producer publishes into a batch, the hub files, every recipient collects and confirms.

It is played on any hub, in this process or far away, and each night has recipients of its own. Each message carries its
own place in the night, so that the recipients can tell whether everything arrived, exactly once and in order. The batch
says when everyone is done. Nothing here prints: `tour` shows what happened.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from restante.client.surface.surface import Batch, Bundle, Hub
from restante.model.columns.arrow import Column, bytes_of, column_of, offsets_of, string_array
from restante.model.figures import counted
from restante.samples.night_steps import Advance, NightResult, Step, Watch, followed, side_by_side, timed
from restante.samples.onlookers import Tell, looking_on

PARCEL_MESSAGES = 10_000
DATA_BYTES = 200
_KINDS = ("letter", "invoice")


@dataclass(slots=True)
class SampleMail:
    """The mail of the night: made in parcels, the same each time it is asked for."""

    messages: int
    recipients: int
    seed: int = field(default_factory=time.time_ns)

    @property
    def name(self) -> str:
        return f"night-{np.base_repr(self.seed, 36).lower()}"

    @property
    def names(self) -> list[str]:
        """Of this night only: what an earlier one left is not in its way."""
        return [f"{self.name}-recipient-{number:06d}" for number in range(self.recipients)]

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


def play(hub: Hub, post: SampleMail, watch: Watch, tell: Tell = lambda _: None) -> NightResult:
    """The whole night. A few recipients are connected meanwhile, and `tell` says what they get."""
    night = NightResult(messages=post.messages, recipients=post.recipients)
    batch = hub.batches.open(key=post.name)
    stage = _Stage(hub, post, batch, night, watch)
    with looking_on(hub, post.names, night, tell):
        _publish(stage)
    for act in (_publish_again, _file, _collect, _complete):
        act(stage)
    _explain(hub, post, night)
    return night


class _Stage(NamedTuple):
    """What every act of the night needs."""

    hub: Hub
    post: SampleMail
    batch: Batch
    night: NightResult
    watch: Watch

    def timed(self, name: str, messages: int) -> AbstractContextManager[tuple[Step, Advance]]:
        return timed(self.night, self.watch, name, messages)

    def followed(self) -> AbstractContextManager[None]:
        return followed(self.batch, self.watch, self.post.messages)


def _publish(stage: _Stage) -> None:
    post = stage.post
    with stage.timed("publish", post.messages) as (step, advance):
        accepted = 0
        for parcel in post.parcels():
            accepted += stage.hub.producer.send(parcel, batch=stage.batch.id).accepted
            advance(parcel.num_rows)
    step.detail = f"parcels of {PARCEL_MESSAGES:,}, each on the disk before it was acknowledged; all in one batch"
    if accepted != post.messages:
        stage.night.wrong.append(f"{accepted:,} of {post.messages:,} messages were accepted.")


def _publish_again(stage: _Stage) -> None:
    """Then nothing more comes, and the batch is sealed."""
    parcel, night = stage.post.parcel(0), stage.night
    with stage.timed("publish a parcel again", parcel.num_rows) as (step, advance):
        night.duplicates = stage.hub.producer.send(parcel, batch=stage.batch.id).duplicates
        advance(parcel.num_rows)
    stage.batch.seal()
    step.detail = f"all {night.duplicates:,} known by their ids and skipped: a retry stores nothing twice"
    if night.duplicates != parcel.num_rows:
        night.wrong.append(f"{night.duplicates:,} of {parcel.num_rows:,} messages sent again were skipped.")


def _file(stage: _Stage) -> None:
    messages = stage.post.messages
    with stage.timed("file", messages) as (step, advance):
        merged = stage.hub.file()
        advance(messages)
    step.detail = f"{merged:,} mailbags merged into sorted shelves; no number and no mailbox changed"


def _collect(stage: _Stage) -> None:
    post, night = stage.post, stage.night
    with stage.timed("collect and confirm", post.messages) as (step, advance), stage.followed():
        rounds = side_by_side(post.names, lambda names: _Round(stage.hub, names, advance))
    night.bundles = sum(one.bundles for one in rounds)
    night.last = max(one.latest for one in rounds)[1]
    step.detail = f"{night.bundles:,} bundles, each peeked and then dequeued in a commit of its own"
    night.wrong += [text for one in rounds for text in one.wrong]
    night.wrong += _missing([places for one in rounds for places in one.places], post.messages)


def _complete(stage: _Stage) -> None:
    """The hub knows it too: everyone has collected everything."""
    night = stage.night
    night.batch = seen = stage.batch.status()
    if seen.completed_at is None:
        night.wrong.append(f"The batch is not complete: {seen.pending:,} of {seen.items:,} messages are pending.")
    found = (seen.items, seen.collected, seen.duplicates)
    if found != (night.messages, night.messages, night.duplicates):
        night.wrong.append("The batch counts {:,} messages, {:,} collected and {:,} duplicates.".format(*found))


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
        self.latest = (0.0, "")
        """When it was done with whom."""

    def walk(self) -> None:
        for name in self._names:
            last = dict.fromkeys(_KINDS, -1)
            for bundle in self._hub.recipient(name).bundles(idle=0):
                self._take(bundle, last)
                bundle.dequeue()
                self.latest = (time.perf_counter(), name)

    def _take(self, bundle: Bundle, last: dict[str, int]) -> None:
        """Note what has come, and whether it is in the order in which it was sent."""
        places = _places(bundle.raw_table)
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


def _explain(hub: Hub, post: SampleMail, night: NightResult) -> None:
    name = post.names[0]
    explanation = hub.recipient(name).explain()
    night.explained = f"{name}: {explanation.reason.value}. {explanation.text}"
    if explanation.waiting:
        waiting = sum(cabinet.messages for cabinet in explanation.waiting)
        night.wrong.append(f"{waiting:,} messages of {name} still wait.")

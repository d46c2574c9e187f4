"""A sample night: a producer publishes into a batch, recipients collect and confirm, and three of them are late.

The night is played on any hub, in this process or far away, and each night has recipients of its own. Each message
carries its own place in the night, so that the recipients can tell whether everything arrived, exactly once and in
order. The batch says who is late, explain says why, and the batch completes when the last one comes. Nothing here
prints: `tour` shows what happened.
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
from restante.samples.latecomers import Latecomers
from restante.samples.night_steps import Advance, NightResult, NightStep, WatchStep, followed, side_by_side, timed
from restante.samples.onlookers import Tell, looking_on

PARCEL_MESSAGES = 10_000
DATA_BYTES = 200
_KINDS = ("letter", "invoice")
_MILLISECOND_NS = 1_000_000


@dataclass(slots=True)
class SampleMail:
    """The mail of the night: made in parcels, the same each time it is asked for."""

    messages: int
    recipients: int
    seed: int = field(default_factory=time.time_ns)

    @property
    def name(self) -> str:
        return night_name(self.seed)

    @property
    def names(self) -> list[str]:
        """The recipients of this night only: what an earlier night left is not in the way."""
        return [f"{self.name}-{number:06d}" for number in range(self.recipients)]

    def parcels(self) -> Iterator[pa.Table]:
        for first in range(0, self.messages, PARCEL_MESSAGES):
            yield self.parcel(first)

    def parcel(self, first: int) -> pa.Table:
        """The messages from `first` on. Their ids follow from the seed: sent again, they are the same messages."""
        places = np.arange(first, min(first + PARCEL_MESSAGES, self.messages))
        data = np.zeros((len(places), DATA_BYTES), np.uint8)
        data[:, :8] = places.astype("<i8").view(np.uint8).reshape(-1, 8)
        return pa.table(
            {
                "id": _fixed(self._ids(first, len(places))),
                "recipient": _named(places % self.recipients, self.names),
                "kind": _named(places % self.recipients % 4 == 0, _KINDS),  # One kind a mailbox: one bundle empties it.
                "data": _fixed(data).cast(pa.binary()),
            }
        )

    def _ids(self, first: int, count: int) -> NDArray[np.uint8]:
        """Random UUIDs (version 4), always the same for the same messages of the same night."""
        ids = np.random.default_rng([self.seed, first]).integers(0, 256, (count, 16), np.uint8)
        ids[:, 6] = ids[:, 6] & 0x0F | 0x40
        ids[:, 8] = ids[:, 8] & 0x3F | 0x80
        return ids


def night_name(seed: int) -> str:
    """A name for a night, by the millisecond in which it begins."""
    return f"night-{np.base_repr(seed // _MILLISECOND_NS, 36).lower()}"


def _fixed(matrix: NDArray[np.uint8]) -> Column:
    """Each row of the matrix as a value of that many bytes."""
    buffers: list[Column] = [None, pa.py_buffer(matrix.tobytes())]
    return pa.Array.from_buffers(pa.binary(matrix.shape[1]), len(matrix), buffers)


def _named(codes: NDArray[np.integer[Any] | np.bool_], names: Sequence[str]) -> Column:
    return pa.DictionaryArray.from_arrays(column_of(codes.astype(np.int32)), string_array(names))


def play(hub: Hub, post: SampleMail, watch: WatchStep, tell: Tell = lambda _: None) -> NightResult:
    """The whole night. A few recipients are connected meanwhile, and `tell` gets a line for what they see."""
    night = NightResult(messages=post.messages, recipients=post.recipients)
    batch = hub.batches.open(key=post.name)
    stage = _Stage(hub, post, batch, night, watch)
    with looking_on(hub, post.names, night, tell):
        _publish(stage)
    _publish_again(stage)
    late = Latecomers.among(hub, post.names)
    with stage.followed():
        rounds = _collect(stage, late)
        night.late = late.told(batch)
        rounds += _collect_late(stage, late)
    _check(night, post, rounds)
    _complete(stage)
    _explain(hub, post, night)
    return night


class _Stage(NamedTuple):
    """The things that every act of the night needs."""

    hub: Hub
    post: SampleMail
    batch: Batch
    night: NightResult
    watch: WatchStep

    def timed(self, name: str, messages: int) -> AbstractContextManager[tuple[NightStep, Advance]]:
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
    """Publish a parcel once more, and seal the batch: nothing more comes."""
    parcel, night = stage.post.parcel(0), stage.night
    with stage.timed("publish a parcel again", parcel.num_rows) as (step, advance):
        night.duplicates = stage.hub.producer.send(parcel, batch=stage.batch.id).duplicates
        advance(parcel.num_rows)
    stage.batch.seal()
    step.detail = f"all {night.duplicates:,} known by their ids and skipped: a retry stores nothing twice"
    if night.duplicates != parcel.num_rows:
        night.wrong.append(f"{night.duplicates:,} of {parcel.num_rows:,} messages sent again were skipped.")


def _collect(stage: _Stage, late: Latecomers) -> list[_Round]:
    """Most of the recipients collect at once; the late ones do half of it or nothing."""
    names = [name for name in stage.post.names if name not in late.names]
    messages = _messages_of(stage.post, len(names))
    with stage.timed("collect and confirm", messages) as (step, advance):
        late.begin()
        rounds = side_by_side(names, lambda names: _Round(stage.hub, names, advance))
    bundles = sum(one.bundles for one in rounds)
    step.detail = (
        f"{counted(len(names), 'recipient')} collect {counted(bundles, 'bundle')}, each dequeued in a commit of its own"
    )
    return rounds


def _collect_late(stage: _Stage, late: Latecomers) -> list[_Round]:
    """Let the late recipients collect at last, one after another."""
    messages = stage.post.messages - _messages_of(stage.post, stage.post.recipients - len(late.names))
    if not messages:
        return []
    with stage.timed("the late ones come", messages) as (step, advance):
        one = _Round(stage.hub, late.names, advance)
        one.wrong += late.wrong
        one.begin(late.taken)
        one.walk()
    step.detail = "with the last of them the batch is complete"
    return [one]


def _messages_of(post: SampleMail, recipients: int) -> int:
    """How many messages the first so many recipients have."""
    whole, rest = divmod(post.messages, post.recipients)
    return whole * recipients + min(rest, recipients)


def _check(night: NightResult, post: SampleMail, rounds: Sequence[_Round]) -> None:
    night.bundles = sum(one.bundles for one in rounds)
    night.last = max(one.latest for one in rounds)[1]
    night.wrong += [text for one in rounds for text in one.wrong]
    night.wrong += _missing([places for one in rounds for places in one.places], post.messages)


def _complete(stage: _Stage) -> None:
    """The hub's own account: everyone has collected everything."""
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
    """A collector, which empties one mailbox after another."""

    def __init__(self, hub: Hub, names: Sequence[str], advance: Advance) -> None:
        self._hub, self._names, self._advance = hub, names, advance
        self.bundles = 0
        self.places: list[NDArray[np.int64]] = []
        self.wrong: list[str] = []
        self.latest = (0.0, "")
        """When the round was last done with a recipient, and with which."""
        self._last: dict[tuple[str, str], int] = {}

    def walk(self) -> None:
        for name in self._names:
            for bundle in self._hub.recipient(name).bundles(idle=0):
                self._take(bundle)
                bundle.dequeue()
                self.latest = (time.perf_counter(), name)

    def begin(self, taken: Sequence[Bundle]) -> None:
        """Take over bundles that were dequeued before."""
        for bundle in taken:
            self._take(bundle)

    def _take(self, bundle: Bundle) -> None:
        """Note what has come, and whether it is in the order in which it was sent."""
        places, place = _places(bundle.raw_table), (bundle.recipient, bundle.kind)
        if not (np.diff(places, prepend=self._last.get(place, -1)) > 0).all():
            self.wrong.append(f"{bundle.recipient} got its {bundle.kind}s out of order.")
        self._last[place] = int(places[-1])
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

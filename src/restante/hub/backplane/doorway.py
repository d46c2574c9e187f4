"""The way of a publish into the backplane: cut into records by partition, handed in, and waited for.

A door keeps nothing that could be lost: the sender is answered when the log has its messages, or when they are stored.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from restante.errors import OutcomeUnknown, RestanteError, Unavailable
from restante.hub.backplane.dispatch import Dispatch, RecordRows, SentRecord
from restante.hub.engine.committer import answer_all
from restante.model.backplane.accept import Accept
from restante.model.backplane.record import encode_columns, encode_letters
from restante.model.health.hub_metric import HubMetric, counter, gauge
from restante.model.mailboxes.answers import LogPosition, Receipt
from restante.model.publishing.message import MessageColumns
from restante.model.storage.letter import Letter
from restante.ports.backplane import Backplane, Delivered, Undelivered

LettersOrColumns = Sequence[Letter] | MessageColumns


HearDelivered = Callable[[int, LogPosition], None]
"""Takes the number of a record, and where it is in the log; from a thread of the backplane."""


class RecordParcel(NamedTuple):
    """Messages for one record: their partition, which of the publish they are, and the messages."""

    partition: int
    rows: Sequence[int] | NDArray[np.int64]
    content: LettersOrColumns


def door_metrics(waiting: int, lost: int) -> tuple[HubMetric, ...]:
    """The metrics of a door, with or without a backplane."""
    return (
        gauge("restante_backplane_waiting", "Records of the backplane for which senders wait.", waiting),
        counter("restante_backplane_lost", "Records that the backplane did not confirm.", lost),
    )


class Doorway:
    """One door of the backplane. Every method may be called from any thread."""

    def __init__(
        self, backplane: Backplane, door: bytes, stored_seconds: float, hear: HearDelivered | None = None
    ) -> None:
        self.backplane = backplane
        self.door = door
        self._stored_seconds = stored_seconds
        self._hear = hear
        """Called with the place of a record in the log, if a publish waits until it is stored and its owner is in another process."""
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, SentRecord] = {}
        self.records = 0
        self.lost = 0

    @property
    def waiting(self) -> int:
        """How many records are not settled yet."""
        return len(self._waiting)

    def metrics(self) -> tuple[HubMetric, ...]:
        return door_metrics(self.waiting, self.lost)

    def dispatch(self, accept: Accept) -> Dispatch:
        """A publish, to be sent."""
        return Dispatch(accept, time.monotonic() + self._stored_seconds)

    def send(self, dispatch: Dispatch, parcels: Iterable[RecordParcel]) -> None:
        """Hand the records of a publish in; its waiter hears when all are settled."""
        numbered = [(next(self._numbers), parcel) for parcel in parcels]
        with self._lock:
            for number, parcel in numbered:
                dispatch.open.add(number)
                self._waiting[number] = SentRecord(dispatch, RecordRows(parcel.partition, parcel.rows))  # type: ignore[arg-type]
        failure: RestanteError | None = None
        for number, parcel in numbered:
            try:
                if failure is None:
                    self._produce(number, parcel)
                    continue
            except RestanteError as error:
                failure = error
            self._lose(number, Undelivered(failure.message, maybe=False))

    def _produce(self, number: int, parcel: RecordParcel) -> None:
        content = parcel.content
        if isinstance(content, MessageColumns):
            encoded = encode_columns(content, self.door, number)
        else:
            encoded = encode_letters(content, self.door, number)
        self.backplane.produce(parcel.partition, encoded, partial(self._reported, number))
        self.records += 1

    def _reported(self, number: int, report: Delivered | Undelivered) -> None:
        if isinstance(report, Undelivered):
            self._lose(number, report)
            return
        sent = self._waiting.get(number)
        if sent is None:
            return
        if sent.dispatch.accept is Accept.ACCEPTED:
            self._settle(number, LogPosition(sent.of.partition, report.position, len(sent.of.rows)))
        elif self._hear is not None:
            self._hear(number, LogPosition(sent.of.partition, report.position, len(sent.of.rows)))

    def _lose(self, number: int, report: Undelivered) -> None:
        self.lost += 1
        self._settle(number, report)

    def told(self, door: bytes, number: int, outcome: Receipt | RestanteError) -> None:
        """Hear what an owner made of a record; it may be that of another door."""
        if door == self.door:
            self._settle(number, outcome)

    def _settle(self, number: int, outcome: LogPosition | Undelivered | Receipt | RestanteError) -> None:
        with self._lock:
            sent = self._waiting.pop(number, None)
            if sent is None:
                return
            dispatch = sent.dispatch
            dispatch.open.discard(number)
            if isinstance(outcome, Receipt):
                dispatch.receipts.append(outcome)
            elif isinstance(outcome, RestanteError):
                dispatch.refused.append((sent.of, outcome))
            elif isinstance(outcome, Undelivered):
                dispatch.lost.append((sent.of, outcome))
            else:
                dispatch.positions.append(outcome)
            done = not dispatch.open
        if done:
            dispatch.conclude()
            answer_all((dispatch,))

    def is_waiting(self, number: int) -> bool:
        return number in self._waiting

    def give_up(self, now: float | None = None) -> None:
        """Answer those who have waited long enough, or all: their messages may be stored later."""
        with self._lock:
            overdue = {id(one.dispatch): one.dispatch for one in self._waiting.values() if _is_over(one.dispatch, now)}
            for dispatch in overdue.values():
                for number in dispatch.open:
                    del self._waiting[number]
        for dispatch in overdue.values():
            dispatch.error = _not_yet() if now is not None else Unavailable("The hub is closing. Try again.")
        answer_all(tuple(overdue.values()))


def _is_over(dispatch: Dispatch, now: float | None) -> bool:
    return now is None or now >= dispatch.deadline


def _not_yet() -> OutcomeUnknown:
    return OutcomeUnknown(
        "The messages are on their way through the backplane, and were not stored in time; they may be yet. Send them "
        "again under the same ids: what is stored is not stored twice.",
        retry_after=1,
    )

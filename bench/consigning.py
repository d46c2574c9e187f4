"""Consignments as they are measured: four writers that stage, or publish, the same mail; and who is there meanwhile.

Every sample has a hub of its own, as one that has stored the mail before would only find duplicates. The mail is made once,
for all samples alike.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, Self
from uuid import uuid4

import pyarrow as pa

from bench.mail import DATA_BYTES, KIND, ORIGIN, Mail, recipient_name, recipient_names
from restante.client.surface.surface import Hub
from restante.model.publishing.message import Message

WRITERS = 4
QUIET_CALLS = 50
"""The number of calls before the commit, and after it, to compare with."""
MAILBOXES = 5_000
"""Full mailboxes for those that peek: each is peeked for the first time once, so there must be enough."""
FIRST_MAILBOX = 7_000_000_000

Parcels = Sequence[pa.Table]


def parcels(mail: Mail, *, recipients: int, messages: int, parcel: int) -> Parcels:
    names = recipient_names(recipients)
    return [mail.table(names, parcel) for _ in range(messages // parcel)]


def publish_all(hub: Hub, mail: Parcels) -> None:
    """Plainly, by four threads, each its share."""

    def publish(share: Parcels) -> int:
        return sum(hub.producer.send(parcel).accepted for parcel in share)

    _checked(_by_writers(publish, mail), mail)


def stage_all(hub: Hub, mail: Parcels, *, batch: bool = False) -> Callable[[], None]:
    """Stage the parcels by four threads, each a writer with its share; gives a function that commits them."""
    consignment = hub.consignment(str(uuid4()), batch=batch)
    writers = count()

    def stage(share: Parcels) -> int:
        writer = f"writer {next(writers)}"
        return sum(consignment.stage(writer, 0, parcel) for parcel in share)

    _checked(_by_writers(stage, mail), mail)

    def commit() -> None:
        receipt = consignment.commit()
        _checked(receipt.accepted, mail)

    return commit


def _by_writers(work: Callable[[Parcels], int], mail: Parcels) -> int:
    with ThreadPoolExecutor(WRITERS, thread_name_prefix="writer") as writers:
        return sum(writers.map(work, (mail[first::WRITERS] for first in range(WRITERS))))


def _checked(messages: int, mail: Parcels) -> None:
    wanted = sum(parcel.num_rows for parcel in mail)
    assert messages == wanted, f"{messages} messages instead of {wanted}"


class Call(NamedTuple):
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds that calls took: those under way during a commit, and those before and after."""

    during: Sequence[float]
    quiet: Sequence[float]

    @classmethod
    def during_commit(cls, calls: Sequence[Call], commit: Call) -> Waits:
        together = [call.start < commit.end and call.end > commit.start for call in calls]
        return cls(
            [call.seconds for call, beside in zip(calls, together, strict=True) if beside],
            [call.seconds for call, beside in zip(calls, together, strict=True) if not beside],
        )

    @classmethod
    def of(cls, several: Sequence[Waits]) -> Waits:
        return cls(
            [seconds for each in several for seconds in each.during],
            [seconds for each in several for seconds in each.quiet],
        )


class Beside:
    """A thread that makes one call after the other, without rest."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.calls: list[Call] = []
        self._call = call
        self._stop = threading.Event()
        self._progress = threading.Condition()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="beside")

    def __enter__(self) -> Self:
        """Returns when it has made a number of calls."""
        self._done = self._thread.submit(self._run)
        self._wait(QUIET_CALLS)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Lets it make as many more before it stops, unless something has failed."""
        if kind is None:
            self._wait(len(self.calls) + QUIET_CALLS)
        self._stop.set()
        self._thread.shutdown()
        self._done.result()

    def _wait(self, calls: int) -> None:
        with self._progress:
            self._progress.wait_for(lambda: len(self.calls) >= calls or self._done.done())

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                start = time.perf_counter()
                self._call()
                self.calls.append(Call(start, time.perf_counter()))
                if len(self.calls) % QUIET_CALLS == 0:
                    self._tell()
        finally:
            self._stop.set()
            self._tell()

    def _tell(self) -> None:
        with self._progress:
            self._progress.notify_all()


def publisher(hub: Hub) -> Callable[[], object]:
    """Publishes one message a call, of an id of its own."""
    numbers = count()
    data = bytes(DATA_BYTES)

    def publish() -> object:
        recipient = recipient_name(FIRST_MAILBOX + next(numbers) % MAILBOXES)
        return hub.producer.send(Message(recipient=recipient, id=str(uuid4()), origin=ORIGIN, kind=KIND, data=data))

    return publish


def peeker(hub: Hub, mail: Mail, *, again: bool) -> Callable[[], object]:
    """Peeks at one mailbox a call. For the first time, which makes a bundle and commits it; or again, which only reads."""
    mailboxes = QUIET_CALLS if again else MAILBOXES
    names = recipient_names(mailboxes, first=FIRST_MAILBOX)
    hub.producer.send(mail.one_each(names))
    numbers = count()

    def peek() -> object:
        return hub.recipient(str(names[next(numbers) % mailboxes])).peek()

    if again:
        for _ in range(mailboxes):
            peek()
    return peek

"""Opens a store in a process of its own and tells, as JSON, what that and a few calls took. Started by `room`.

Arguments: the folder; `measure`, `open`, or `kill`, to be killed while it publishes; recipients, messages of a publish,
recipients of a publish.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

import restante
from bench.mail import KIND, ORIGIN, Mail, recipient_name, recipient_names
from bench.process import resident_bytes
from restante.client.surface.surface import Hub
from restante.model.publishing.message import Message
from restante.settings import Settings
from restante.stores.memory import MemoryStore

SETTINGS = Settings(feed_retention_seconds=0)
"""Without the feed's copies of what was filed: they are not read when a store is opened, and fill the disk."""
REPETITIONS = 9
SMALL_REPETITIONS = 100


def main(folder: Path, what: str, recipients: int, send: int, send_recipients: int) -> dict[str, float]:
    _warm_up()
    start = time.perf_counter()
    hub = restante.open(folder, settings=SETTINGS)
    found = {"open_seconds": time.perf_counter() - start}
    mail, many = Mail(), recipient_names(send_recipients)
    with hub:
        if what == "kill":
            for _ in range(REPETITIONS):
                hub.producer.send(mail.table(many, send))
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "measure":
            names = [recipient_name(number) for number in mail.draw(recipients, min(SMALL_REPETITIONS, recipients))]
            found["single_seconds"] = _median([_timed(partial(hub.producer.send, _message(name))) for name in names])
            found |= _collecting(hub, mail)
            tables = [mail.table(many, send) for _ in range(REPETITIONS)]
            found |= _publishing(hub, tables)
        found["resident"] = resident_bytes()
    return found


def _publishing(hub: Hub, tables: list[pa.Table]) -> dict[str, float]:
    """The time of a publish, and the processor time of its caller, which checks, judges and lays out: others do not stretch that."""
    before, seconds, processor = time.thread_time(), [], []
    for table in tables:
        seconds.append(_timed(partial(hub.producer.send, table)))
        now = time.thread_time()
        processor.append(now - before)
        before = now
    return {"publish_seconds": _median(seconds), "publish_processor_seconds": _median(processor)}


def _warm_up() -> None:
    """Import and set up what a process needs once, and is not the store's."""
    with restante.open(None, store=MemoryStore(), settings=SETTINGS) as hub:
        hub.producer.send(Message(recipient="a", data=b"a"))
        bundle = hub.recipient("a").peek()
        assert bundle is not None
        bundle.dequeue()


def _message(recipient: str) -> Message:
    return Message(recipient=recipient, id=str(uuid4()), origin=ORIGIN, kind=KIND, data=b"new")


def _collecting(hub: Hub, mail: Mail) -> dict[str, float]:
    """Mailboxes of about ten messages each, however much is stored beside them."""
    names = mail.newcomers(SMALL_REPETITIONS)
    hub.producer.send(mail.table(names, 10 * SMALL_REPETITIONS))
    peeks, dequeues = [], []
    for name in map(str, names.to_pylist()):
        start = time.perf_counter()
        bundle = hub.recipient(name).peek()
        if bundle is not None:
            peeks.append(time.perf_counter() - start)
            dequeues.append(_timed(bundle.dequeue))
    return {"peek_seconds": _median(peeks), "dequeue_seconds": _median(dequeues)}


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _median(seconds: list[float]) -> float:
    return statistics.median(seconds)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))))

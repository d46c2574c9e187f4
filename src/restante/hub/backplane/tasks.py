"""The threads of a backplane: one reads and stores the logs of this hub's partitions, one looks after those who wait."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from restante.errors import RestanteError, Unavailable
from restante.hub.backplane.memory import BackplaneMemory
from restante.hub.backplane.owner import starts, take_in
from restante.hub.engine.core import Core
from restante.hub.engine.tasks import Task
from restante.limits import BACKPLANE_FETCH_RECORDS_MAX, BACKPLANE_PAUSE_SECONDS
from restante.ports.backplane import BackplaneReader, FetchedRecord

_TAKE_SECONDS = 0.2
_WAITS_SECONDS = 0.5
_log = logging.getLogger("restante.backplane")


def _read(core: Core) -> None:
    """Until the hub closes: read the log from where it is stored; after a failure, once more."""
    memory = core.memory(BackplaneMemory)
    while not core.closing.is_set():
        try:
            _check(core)
            _follow(core, memory)
        except RestanteError as error:
            _pause(core, memory, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the log is read again from where it is stored
            _log.exception("The log of the backplane could not be stored.")
            _pause(core, memory, Unavailable(f"{type(error).__name__}: {error}"))


def _pause(core: Core, memory: BackplaneMemory, error: RestanteError) -> None:
    if not isinstance(error, Unavailable):
        memory.unfit = error.message
    if memory.failure != error.message and not core.closing.is_set():
        _log.error("The log of the backplane is not stored at present: %s", error.message)
    memory.failure = error.message
    core.closing.wait(BACKPLANE_PAUSE_SECONDS)


def check(core: Core) -> None:
    """Whether the log fits the hub: an error if not. If nobody says, it is asked again later."""
    memory = core.memory(BackplaneMemory)
    assert memory.backplane is not None, "who checks a log has one"
    memory.failure = memory.backplane.failure()
    try:
        if memory.failure is None:
            _check(core)
    except Unavailable as error:
        memory.failure = error.message
    if memory.failure is not None:
        _log.warning("The backplane does not answer yet: %s", memory.failure)


def _check(core: Core) -> None:
    """The log has as many partitions as the hub, and goes on where it is stored."""
    memory = core.memory(BackplaneMemory)
    assert memory.backplane is not None, "who checks a log has one"
    if memory.unfit is not None:
        memory.backplane.check(core.deed.partition_count)
        starts(core)
        memory.unfit = None


def _follow(core: Core, memory: BackplaneMemory) -> None:
    assert memory.backplane is not None, "who reads a log has one"
    reader = memory.backplane.reader(starts(core))
    memory.failure = None
    try:
        while not core.closing.is_set():
            _store(core, memory, _taken(reader))
    finally:
        reader.close()


def _taken(reader: BackplaneReader) -> Sequence[FetchedRecord]:
    return reader.take(BACKPLANE_FETCH_RECORDS_MAX, _TAKE_SECONDS)


def _store(core: Core, memory: BackplaneMemory, records: Sequence[FetchedRecord]) -> None:
    """Store what was read, again and again while the store is away."""
    while records and not core.closing.is_set():
        try:
            take_in(core, records)
        except Unavailable as error:
            _pause(core, memory, error)
        else:
            memory.failure = None
            return


def _look_after(core: Core) -> None:
    doorway = core.memory(BackplaneMemory).doorway
    assert doorway is not None, "who waits has come by a door"
    while not core.closing.wait(_WAITS_SECONDS):
        doorway.give_up(time.monotonic())
    doorway.give_up()


def _is_wanted(core: Core) -> bool:
    return core.memory(BackplaneMemory).backplane is not None


READER = Task("backplane", _read, is_wanted=_is_wanted, waits_outside=True, component="doors")
WAITS = Task("backplane-waits", _look_after, is_wanted=_is_wanted, component="doors")

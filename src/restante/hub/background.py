"""What goes on in the background: filing, expiry, retention, and telling origins what was dequeued."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from restante import limits
from restante.errors import DataDamaged, Unavailable
from restante.hub import expiry, filing, outbox, retention
from restante.hub.core import Core

_RETRY_SECONDS = 1.0
_OUTBOX = "restante-outbox"
_OUTBOX_LEAVE_SECONDS = 1.0
_log = logging.getLogger(__name__)


class Background:
    """The threads of a hub beside its committer."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._threads: list[threading.Thread] = []
        if core.settings.filing:
            self._start("restante-filing", self._file_always)
        if core.settings.housekeeping_seconds > 0:
            self._start("restante-housekeeping", self._keep_house)
        if any(port.dequeued is not None for port in core.origins.values()):
            core.outbox_waits.set()
            self._start(_OUTBOX, self._deliver_always)

    def _start(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """After `core.closing` is set: wait until the threads have noticed."""
        self._core.filing_wanted.set()
        self._core.outbox_waits.set()
        for thread in self._threads:
            # An origin may take long to answer. Whatever it says after this, it is told again by the next hub.
            thread.join(_OUTBOX_LEAVE_SECONDS if thread.name == _OUTBOX else None)

    def relieve(self) -> None:
        """Called by publishers: when too much is unfiled, they file before they publish, and so slow down."""
        for number in tuple(self._core.overdue):
            filing.file_once(self._core, self._core.partitions[number], everything=True)

    def _file_always(self) -> None:
        core = self._core
        while not core.closing.is_set():
            core.filing_wanted.wait()
            core.filing_wanted.clear()
            for partition in core.partitions:
                if partition.fresh_runs < limits.FILING_HANDFUL:
                    continue
                while not core.closing.is_set() and self._guarded(lambda p=partition: filing.file_once(core, p)):  # type: ignore[misc]
                    pass

    def _keep_house(self) -> None:
        core = self._core
        while not core.closing.wait(core.settings.housekeeping_seconds):
            self._guarded(lambda: expiry.expire(core))
            self._guarded(lambda: retention.retain(core))

    def _deliver_always(self) -> None:
        core, pacing = self._core, outbox.Pacing()
        while not core.closing.is_set():
            # While an origin fails, all that waits for it is passed over in each round: then rounds are no more often.
            (core.closing if pacing.failing else core.outbox_waits).wait(_RETRY_SECONDS)
            if not core.closing.is_set():
                self._guarded(lambda: outbox.deliver(core, pacing))

    def _guarded(self, work: Callable[[], int]) -> int:
        """Background work that fails is tried again later: it changes nothing that anybody can see."""
        try:
            return work()
        except (DataDamaged, Unavailable) as error:
            if not self._core.closing.is_set():
                _log.error("%s: %s", threading.current_thread().name, error)
            self._core.closing.wait(_RETRY_SECONDS)
        return 0

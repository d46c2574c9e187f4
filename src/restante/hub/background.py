"""What goes on in the background: filing, expiry, retention, and telling origins what was dequeued."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from restante import limits
from restante.errors import DataDamaged, Unavailable
from restante.hub import batch_keeping, consignments, expiry, filing, outbox, retention, telling
from restante.hub.core import Core

_RETRY_SECONDS = 1.0
_BATCHES_SECONDS = 5.0
_OUTBOX = "restante-outbox"
_NOTICES = "restante-notices"
_LEAVE_SECONDS = 1.0
"""How long threads are waited for that may themselves be waiting for somebody outside."""
_log = logging.getLogger(__name__)


class Background:
    """The threads of a hub beside its committer."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._threads: list[threading.Thread] = []
        self._telling = 0
        self._lock = threading.Lock()
        if core.settings.filing:
            self._start("restante-filing", self._file_always)
        if core.settings.housekeeping_seconds > 0:
            self._start("restante-housekeeping", self._keep_house)
        if any(port.dequeued is not None for port in core.origins.values()):
            core.outbox_waits.set()
            self._start(_OUTBOX, self._deliver_always)
        self._start("restante-batches", self._keep_batches)
        core.notices.wanted = self._tell_more
        if telling.any_notices(core):
            self._telling = 1
            self._start(_NOTICES, self._tell_what_was_left)

    def _start(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def close(self) -> None:
        """After `core.closing` is set: wait until the threads have noticed."""
        self._core.filing_wanted.set()
        self._core.outbox_waits.set()
        self._core.batch_work.wanted.set()
        self._core.notices.wake()
        deadline = time.monotonic() + _LEAVE_SECONDS
        for thread in tuple(self._threads):
            # Who is told may take long to answer. Whatever it says after this, it is told again by the next hub.
            outside = thread.name in (_OUTBOX, _NOTICES)
            thread.join(max(0.0, deadline - time.monotonic()) if outside else None)

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
            self._guarded(lambda: batch_keeping.reap_due(core))
            self._guarded(lambda: consignments.keep(core))

    def _keep_batches(self) -> None:
        core = self._core
        self._guarded(lambda: batch_keeping.tidy_leftovers(core))
        while not core.closing.is_set():
            core.batch_work.wanted.wait(_BATCHES_SECONDS)
            if not core.closing.is_set():
                self._guarded(lambda: batch_keeping.work(core))

    def _deliver_always(self) -> None:
        core, pacing = self._core, outbox.Pacing()
        while not core.closing.is_set():
            # While an origin fails, all that waits for it is passed over in each round: then rounds are no more often.
            (core.closing if pacing.failing else core.outbox_waits).wait(_RETRY_SECONDS)
            if not core.closing.is_set():
                self._guarded(lambda: outbox.deliver(core, pacing))

    def _tell_more(self) -> None:
        """Called when there is a notice more: each of the first gets a thread."""
        with self._lock:
            if self._telling >= limits.WEBHOOKS_AT_ONCE_MAX:
                return
            self._telling += 1
        try:
            self._start(_NOTICES, lambda: telling.tell_always(self._core))
        except RuntimeError as error:  # The commit that brought the notice must not fail for want of a thread.
            _log.error("No thread to tell of completed batches: %s", error)

    def _tell_what_was_left(self) -> None:
        core, loaded = self._core, False
        while not loaded and not core.closing.is_set():
            loaded = self._guarded(lambda: 1 + telling.load(core)) > 0
        telling.tell_always(core)

    def _guarded(self, work: Callable[[], int]) -> int:
        """Background work that fails is tried again later: it changes nothing that anybody can see."""
        try:
            return work()
        except (DataDamaged, Unavailable) as error:
            if not self._core.closing.is_set():
                _log.error("%s: %s", threading.current_thread().name, error)
            self._core.closing.wait(_RETRY_SECONDS)
        except Exception:  # noqa: BLE001  # a defect in one task must not end the others of its thread
            _log.exception("%s", threading.current_thread().name)
            self._core.closing.wait(_RETRY_SECONDS)
        return 0

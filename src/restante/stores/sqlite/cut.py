"""`FolderCut`: a snapshot of a folder as of a moment at which several folders hold their commits.

Commits are held only briefly, while a new log is begun. The commits before are brought into the database afterwards, while
new commits go into the new log; the database gets none of the new ones before its copy has begun.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from restante.errors import Unavailable
from restante.model.storage.changes import Space
from restante.ports.backup import CutLapses
from restante.stores.sqlite.backup import FolderSnapshot, Snapshots
from restante.stores.sqlite.commits import Commits


class FolderCut:
    """A cut, prepared on creation. It ends by itself after the times in `lapses`, so that nothing waits for it too long."""

    def __init__(self, commits: Commits, snapshots: Snapshots, lapses: CutLapses) -> None:
        self._commits, self._snapshots, self._lapses = commits, snapshots, lapses
        self._lock = threading.RLock()
        self._reserved = snapshots.reserve()
        try:
            commits.prepare_cut()
        except BaseException:
            self._reserved.close()
            raise
        self._cutting = True
        """Whether the database is kept unchanged for the cut."""
        self._held_at: float | None = None
        self._released = self._closed = False
        self._timer = self._in_time(lapses.prepared)

    def hold(self) -> bool:
        with self._lock:
            if self._closed or self._released or self._held_at is not None:
                return False
            self._timer.cancel()  # The next timer takes over.
            self._commits.hold()
            self._held_at = time.monotonic()
            self._timer = self._in_time(self._lapses.held)
            return True

    def release(self) -> float | None:
        with self._lock:
            seconds = self._let_go()
            if self._closed or seconds is None:
                return None
            self._timer.cancel()
            self._timer = self._in_time(self._lapses.kept)
            self._released = True
            return seconds

    def snapshot(self, leaving_out: Sequence[Space] = ()) -> FolderSnapshot:
        with self._lock:
            self._require_open()
            if not self._released:
                raise Unavailable("The shards did not agree on the moment of the backup. Ask for another one.")
            self._timer.cancel()
            self._closed, reserved = True, self._reserved.pop_all()
        try:
            self._commits.bring_in()
            return self._snapshots.copied(reserved, leaving_out, self._end_cut)
        finally:
            self._end_cut()
            reserved.close()  # Does nothing if the snapshot has taken it over.

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._timer.cancel()
            self._let_go()
            self._end_cut()
            self._reserved.close()

    def _let_go(self) -> float | None:
        """Release the commits; return how long they were held, or None if they were not."""
        held_at, self._held_at = self._held_at, None
        if held_at is None:
            return None
        self._commits.let_go()
        return time.monotonic() - held_at

    def _end_cut(self) -> None:
        with self._lock:
            if self._cutting:
                self._cutting = False
                self._commits.end_cut()

    def _require_open(self) -> None:
        if self._closed:
            raise Unavailable("The shards took too long to agree on the moment of the backup. Ask for another one.")

    def _in_time(self, seconds: float) -> threading.Timer:
        timer = threading.Timer(seconds, self.close)
        timer.daemon = True
        timer.name = "restante-cut"
        timer.start()
        return timer

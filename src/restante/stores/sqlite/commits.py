"""Commits go into the log and the overlay one by one, and from there into the database, many at a time.

There are two locks, so that a transfer holds up no commit. A commit holds `_appending`, and so does, briefly, the thread that
freezes the overlay. The user of the database's connection holds the writer's lock. `_appending` is taken before it.
"""

from __future__ import annotations

import sqlite3
import threading
from typing import NamedTuple

from restante.errors import RestanteError, StorageFull, Unavailable
from restante.limits import KIB, MIB
from restante.model.storage.changes import Changes
from restante.stores.sqlite.failures import outcome_unknown, reason_of, translated
from restante.stores.sqlite.files import BlobFiles
from restante.stores.sqlite.journal import JOURNAL_BYTES_MAX, Journal
from restante.stores.sqlite.log import STEP_BYTES, Log
from restante.stores.sqlite.lookups import Lookups, row_ids_of
from restante.stores.sqlite.overlay import Overlay
from restante.stores.sqlite.record import BlobRow, CommitDeeds, pack_lives
from restante.stores.sqlite.writer import Writer


class LogBounds(NamedTuple):
    """The bounds of the log and the overlay.

    Both have at most two generations, each of at most `most_bytes` and one more commit.
    """

    target_bytes: int = 12 * MIB
    """The length of the log from which commits are transferred in the background. By then most tiny runs are filed."""
    most_bytes: int = 32 * MIB
    """The length of the log from which a commit first transfers those before it, if the background does not keep up."""
    step_bytes: int = STEP_BYTES


LOG_BOUNDS = LogBounds()
_RECORD_BYTES_MORE = 64 * KIB
"""An upper bound of the bytes of a small commit's record besides its messages: rows of runs and counters."""


class Commits:
    def __init__(
        self,
        *,
        writer: Writer,
        journal: Journal,
        files: BlobFiles,
        log: Log,
        overlay: Overlay,
        lookups: Lookups,
        bounds: LogBounds,
    ) -> None:
        self._writer = writer
        self._journal = journal
        self._files = files
        self._log = log
        self._overlay = overlay
        self._lookups = lookups
        self._bounds = bounds
        self._appending = threading.Lock()
        self._transferring = threading.Lock()
        self._closed = False
        self._in_vain = False
        """Whether the last transfer failed. The next one is tried only by a commit that cannot go on without it."""
        self._last_blobs: dict[int, int] = {}

    def require_running(self) -> None:
        if self._closed:
            raise Unavailable("The store is closed.")
        self._writer.require_running()

    def commit(self, changes: Changes, rows: list[BlobRow], file: int | None) -> None:
        """Commit durably. Rows of blobs name `file` unless they hold the bytes themselves."""
        if not self._has_place():
            self._make_place()
        deeds = CommitDeeds(list(changes.entries.items()), rows, row_ids_of(changes.dropped))
        with self._appending:
            self.require_running()
            self._writer.require_fences(changes.fences)
            self._require_new(changes, rows)
            if not any(deeds):
                return
            freed = self._append(deeds)
            if file is not None:
                self._files.named(file, len(rows))
        self._files.dropped(freed)

    def _has_place(self) -> bool:
        """Whether one more commit fits into the log before a transfer."""
        return self._overlay.weight_bytes() < self._bounds.most_bytes and self._log.may_append()

    def _make_place(self) -> None:
        """Transfer the log. If the disk is full, a partial transfer may have made enough room."""
        try:
            self.transfer()
        except StorageFull:
            if not self._has_place():
                raise

    def is_quick(self, byte_count: int) -> bool:
        """Whether a commit would not wait for a transfer or another commit, and its flush is likely to be short."""
        return (
            self._overlay.weight_bytes() < self._bounds.most_bytes
            and not self._appending.locked()
            and self._log.is_quick(byte_count + _RECORD_BYTES_MORE)
        )

    def raise_fences(self, partitions: range, by: int = 1) -> int:
        with self._appending, self._writer.lock:
            return self._writer.raise_fences(partitions, by)

    def due(self) -> bool:
        """Whether the background should transfer: there is enough to do, and the last transfer did not fail."""
        return self._overlay.weight_bytes() >= self._bounds.target_bytes and not self._in_vain

    def transfer(self) -> None:
        """Bring all commits so far into the database."""
        with self._transferring:
            # A frozen generation may be left by a failed transfer or a crash.
            self._transfer_frozen()
            self._freeze()
            self._transfer_frozen()

    def prepare_cut(self) -> None:
        """Bring all commits so far into the database, and let no other transfer begin before `end_cut`."""
        self._transferring.acquire()
        try:
            self._transfer_frozen()
            self._freeze()
            self._transfer_frozen()
        except BaseException:
            self._transferring.release()
            raise

    def hold(self) -> None:
        """Wait for the commit under way, and hold all others until `let_go`. Freeze the commits since `prepare_cut`."""
        self._appending.acquire()
        try:
            self._freeze_held()
        except BaseException:
            self._appending.release()
            raise

    def let_go(self) -> None:
        self._appending.release()

    def bring_in(self) -> None:
        """Bring the frozen commits into the database, which then has exactly the commits up to `hold`."""
        self._transfer_frozen()

    def end_cut(self) -> None:
        """Allow transfers again."""
        self._transferring.release()

    def _freeze(self) -> None:
        with self._appending:
            self._freeze_held()

    def _freeze_held(self) -> None:
        files = self._log.leave()
        if files:
            self._overlay.freeze(files)

    def renew_log(self) -> None:
        """Bring all commits so far into the database, and leave nothing of them in the log."""
        self.transfer()
        with self._transferring:
            # Commits must wait here: a file begun meanwhile would hide the rest of its earlier life.
            with self._appending:
                self._freeze_held()
                self._transfer_frozen()
                forgotten = self._log.forget()
            for file in forgotten:
                file.remove()

    def close(self) -> None:
        """Wait for the commit under way, and refuse all others."""
        with self._appending:
            self._closed = True

    def _append(self, deeds: CommitDeeds) -> list[int]:
        try:
            record_bytes = self._log.append(deeds)
            return self._overlay.apply(deeds, sequence=self._log.last, record_bytes=record_bytes)
        except BaseException as error:
            if outcome_unknown(error):
                self._writer.stop(f"a commit failed while it was written ({reason_of(error)})")
            if isinstance(error, OSError):
                raise translated(error) from error
            raise

    def _require_new(self, changes: Changes, rows: list[BlobRow]) -> None:
        """Assert that blobs are new. Numbers ascend except for those of filing, so most need no lookup."""
        for (blob, _), row in zip(changes.blobs, rows, strict=True):
            last = self._last_blobs.get(blob.partition)
            if last is None:
                last = self._lookups.last_blob(blob.partition)
            if row[0] > last:
                self._last_blobs[blob.partition] = row[0]
            else:
                assert not self._lookups.has_blob(row[0]), "a blob is written once, under a number never used before"

    def _transfer_frozen(self) -> None:
        frozen = self._overlay.frozen
        if frozen is None:
            return
        lives = self._log.lives_without(frozen.files)
        if frozen.last or any(file.life is not None for file in frozen.files):
            self._in_vain = True
            self._journal_bounded()
            with self._writer.lock:
                freed = self._writer.write(frozen.transaction()._replace(lives=pack_lives(lives)))
                self._journal.committed()
            self._files.dropped(freed)
            self._in_vain = False
        self._overlay.thaw()
        self._log.release(frozen.files, lives)

    def _journal_bounded(self) -> None:
        if self._journal.length_bytes() <= JOURNAL_BYTES_MAX:
            return
        try:
            self._journal.transfer(self._writer.lock)
        except sqlite3.Error as error:
            raise self.failed(error) from error

    def failed(self, error: sqlite3.Error | OSError) -> RestanteError:
        if outcome_unknown(error):
            self._writer.stop(f"a flush failed ({reason_of(error)})")
        return translated(error)

"""One process at a time owns a data folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from restante.errors import DataLocked
from restante.stores.sqlite.privacy import FILE_MODE

_PID_CHARACTERS_MAX = 20


class FolderLock:
    """An exclusive `flock` on a file in the folder: the system releases it however the process ends."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(self._descriptor, _PID_CHARACTERS_MAX, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise DataLocked(
                f"The data folder {folder} is open already (by process {owner or 'unknown'}). "
                "One process at a time may use it: close that one, or choose another folder.",
                folder=str(folder),
            ) from error
        # For the message above only; the lock does not depend on it.
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, str(os.getpid()).encode("ascii"), 0)

    @staticmethod
    def is_held(folder: Path) -> bool:
        """Whether a process has the folder open just now."""
        try:
            descriptor = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)  # Which also unlocks it.
        return False

    def release(self) -> None:
        # Explicitly, for a forked child may hold the same open file.
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)

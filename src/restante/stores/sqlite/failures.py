"""The engine's edge: what SQLite and the operating system report, as errors of the hub."""

from __future__ import annotations

import errno
import resource
import sqlite3

from restante.errors import DataDamaged, RestanteError, StorageFull, Unavailable

# A file size limit (EFBIG) is treated like a full disk: the store goes on as soon as the limit is raised.
_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# SQLite has an error for a full disk, but reports a file size limit in the same places as an I/O error.
_LIMITED_CODES = frozenset({sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE})
_DAMAGED_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_PRIMARY_CODE_MASK = 0xFF


class FlushFailed(OSError):
    """The system could not confirm that written data is on the disk."""


class RecordInDoubt(FlushFailed):
    """A record of the log was written whole, and its flush failed, so the record may be found later."""


def translated(error: sqlite3.Error | OSError, where: object = "the data folder") -> RestanteError:
    """The hub's error for an error of the driver; raise it `from` the original.

    Give `where` only when a folder is opened: errors of a running hub may reach other machines, and name no folder.
    """
    if _full(error):
        return StorageFull(
            f"No space is left for {where} ({reason_of(error)}); nothing was changed. Make room and try again."
        )
    if _primary_code(error) in _DAMAGED_CODES:
        return DataDamaged(f"The database in {where} is damaged: {reason_of(error)}. Restore it from a backup.")
    return Unavailable(f"The store in {where} failed: {reason_of(error)}.")


def reason_of(error: BaseException) -> str:
    """The text of an error without the file name."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error) or repr(error)


def outcome_unknown(error: BaseException) -> bool:
    """Whether a failed commit may be found stored after a restart.

    It may after a failed flush, any I/O error of a transaction (its frames may be in the journal, and only the flush have
    failed), or an interrupt. It may not if flushing a new blob file found the disk full: no row names the file yet, and it is
    removed.
    """
    if isinstance(error, FlushFailed):
        return not _full(error)
    if isinstance(error, sqlite3.Error):
        return _primary_code(error) == sqlite3.SQLITE_IOERR and not _full(error)
    return not isinstance(error, Exception)


def _full(error: sqlite3.Error | OSError) -> bool:
    if isinstance(error, RecordInDoubt):
        return False
    if isinstance(error, OSError):
        return error.errno in _FULL_ERRNOS
    return _primary_code(error) == sqlite3.SQLITE_FULL or (_code(error) in _LIMITED_CODES and _sizes_are_limited())


def _sizes_are_limited() -> bool:
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return limit != resource.RLIM_INFINITY


def _primary_code(error: BaseException) -> int | None:
    code = _code(error)
    return None if code is None else code & _PRIMARY_CODE_MASK


def _code(error: BaseException) -> int | None:
    # Errors that the Python module itself raises have no code.
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code

"""One durable commit of one small row in SQLite: what anything that must survive costs at least."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bench.peer import Opener, Operation, Peer
from bench.sqlite import checkpoint, connect

KIB = 1024
JOURNAL_COMMITS = 500


class Commit(Peer):
    def __init__(self, folder: Path, *, page_bytes: int) -> None:
        self._connection = connect(folder / "commit.sqlite", page_bytes=page_bytes)
        self._connection.execute("CREATE TABLE head (name TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID")
        self._connection.execute("INSERT INTO head VALUES ('5790000000000', 0)")
        self._lengthen_journal()

    def commit(self) -> None:
        self._connection.execute("UPDATE head SET number = number + 1 WHERE name = '5790000000000'")

    def _lengthen_journal(self) -> None:
        """Commits are cheapest in a journal that need not grow; a checkpoint lets it start over."""
        for _ in range(JOURNAL_COMMITS):
            self.commit()
        checkpoint(self._connection)

    def close(self) -> None:
        self._connection.close()


def variants(operation: Operation) -> Mapping[str, Opener]:
    if operation is not Operation.COMMIT:
        return {}
    return {f"commit, {kib} KiB pages": partial(Commit, page_bytes=kib * KIB) for kib in (4, 16)}

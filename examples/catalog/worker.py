"""The worker of the catalogue: comments and ratings added, objects deleted. `restante work examples.catalog.worker:app`.

Each handler writes in one transaction of the catalogue's database, and each may run twice and leaves the same: what was
created twice is one, and deleting what is gone is fine.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from examples.catalog import records
from examples.catalog.database import Database, DatabaseError
from examples.catalog.shapes import AddComment, AddRating, DeleteObject
from restante.work import App, Job

_log = logging.getLogger("catalog.worker")

DATABASE_VARIABLE = "CATALOG_DATABASE"
app = App("catalog")
_opened: list[Database] = []


@app.on_start
def open_database() -> None:
    _opened.append(Database(Path(os.environ.get(DATABASE_VARIABLE, "catalog.db"))))


@app.on_stop
def close_database() -> None:
    _opened.pop().close()


@app.action("add_comment", timeout=30, passing=(DatabaseError,))
async def add_comment(body: AddComment, job: Job) -> None:
    async with _writing(job) as connection:
        if connection is not None and _has_item(connection, job):
            expires_at = records.expiry(test_data=body.test_data)
            records.put_comment(connection, body.comment, number=job.number, expires_at=expires_at)


@app.action("add_rating", timeout=30, passing=(DatabaseError,))
async def add_rating(body: AddRating, job: Job) -> None:
    async with _writing(job) as connection:
        if connection is not None and _has_item(connection, job):
            records.put_rating(connection, body.rating, expires_at=records.expiry(test_data=body.test_data))


@app.action("delete_object", timeout=30, passing=(DatabaseError,))
async def delete_object(body: DeleteObject, job: Job) -> None:
    async with _writing(job) as connection:
        if connection is None:
            return
        match body.object_type:
            case "item":
                records.delete_item(connection, job.concerns)
            case "comment":
                records.delete_comment(connection, job.concerns, body.object_id)
            case "rating":
                records.delete_rating(connection, job.concerns, body.object_id)
            case unknown:
                _log.warning(
                    "Action %s is to delete an object of the unknown type %r: nothing is done", job.id, unknown
                )


@asynccontextmanager
async def _writing(job: Job) -> AsyncIterator[sqlite3.Connection | None]:
    """A transaction that does this action once; None, if it was done before."""
    async with _opened[-1].writing() as connection:
        yield connection if job.once(connection) else None


def _has_item(connection: sqlite3.Connection, job: Job) -> bool:
    """Whether the item is there: an action that was accepted before its item went, and is done after that, has nothing to do."""
    found = records.is_item(connection, job.concerns)
    if not found:
        _log.info("Action %s concerns the item %s, which is gone: nothing is done", job.id, job.concerns)
    return found

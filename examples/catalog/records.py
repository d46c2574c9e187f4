"""Items, comments and ratings in the database: what the API reads, and what API and workers write.

Each write may be done twice and leaves the same: what exists is replaced, what is gone stays gone.
"""

from __future__ import annotations

import sqlite3
import time
from datetime import datetime
from decimal import Decimal

from examples.catalog.database import Database
from examples.catalog.shapes import (
    LIST_COMMENTS_MAX,
    LIST_ITEMS_MAX,
    TEST_DATA_SECONDS,
    CatalogItem,
    ItemComment,
    ItemDraft,
    ItemRating,
    RatingSummary,
)

_ALIVE = "(expires_at IS NULL OR expires_at > ?)"


def expiry(*, test_data: bool) -> float | None:
    """When what is stored now is gone: test data after 30 seconds, other data never."""
    return time.time() + TEST_DATA_SECONDS if test_data else None


# Reads


def list_items(database: Database) -> list[CatalogItem]:
    rows = database.rows(
        f"SELECT id, name, NULL AS description, price, image_url, last_updated FROM items WHERE {_ALIVE} "
        "ORDER BY name, id LIMIT ?",
        time.time(),
        LIST_ITEMS_MAX,
    )
    return [_item(row) for row in rows]


def find_item(database: Database, item_id: str) -> CatalogItem | None:
    rows = database.rows(f"SELECT * FROM items WHERE id = ? AND {_ALIVE}", item_id, time.time())
    return _item(rows[0]) if rows else None


def has_item(database: Database, item_id: str) -> bool:
    return bool(database.rows(f"SELECT 1 FROM items WHERE id = ? AND {_ALIVE}", item_id, time.time()))


def newest_comments(database: Database, item_id: str) -> list[ItemComment]:
    rows = database.rows(
        f"SELECT * FROM comments WHERE item_id = ? AND {_ALIVE} ORDER BY number DESC LIMIT ?",
        item_id,
        time.time(),
        LIST_COMMENTS_MAX,
    )
    return [_comment(row) for row in rows]


def find_comment(database: Database, item_id: str, comment_id: str) -> ItemComment | None:
    rows = database.rows(
        f"SELECT * FROM comments WHERE item_id = ? AND id = ? AND {_ALIVE}", item_id, comment_id, time.time()
    )
    return _comment(rows[0]) if rows else None


def rating_summary(database: Database, item_id: str) -> RatingSummary:
    (row,) = database.rows(
        f"SELECT avg(rating), count(*) FROM ratings WHERE item_id = ? AND {_ALIVE}", item_id, time.time()
    )
    return RatingSummary(average_rating=row[0] or 0.0, number_of_votes=row[1])


def find_rating(database: Database, item_id: str, rating_id: str) -> ItemRating | None:
    rows = database.rows(
        f"SELECT * FROM ratings WHERE item_id = ? AND id = ? AND {_ALIVE}", item_id, rating_id, time.time()
    )
    return _rating(rows[0]) if rows else None


# Writes


def put_item(connection: sqlite3.Connection, item: CatalogItem, *, expires_at: float | None) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            item.id,
            item.name,
            item.description,
            str(item.price),
            item.image_url,
            item.last_updated.isoformat(),
            expires_at,
        ),
    )


def change_item(
    connection: sqlite3.Connection, item_id: str, draft: ItemDraft, *, changed_at: datetime, expires_at: float | None
) -> CatalogItem | None:
    """The item with what the draft has; test data keeps its life, unless it is given a new one."""
    row = connection.execute(
        "UPDATE items SET name = coalesce(?, name), description = coalesce(?, description), "
        "price = coalesce(?, price), image_url = coalesce(?, image_url), last_updated = ?, "
        f"expires_at = coalesce(?, expires_at) WHERE id = ? AND {_ALIVE} RETURNING *",
        (
            draft.name,
            draft.description,
            None if draft.price is None else str(draft.price),
            draft.image_url,
            changed_at.isoformat(),
            expires_at,
            item_id,
            time.time(),
        ),
    ).fetchone()
    return None if row is None else _item(row)


def put_comment(connection: sqlite3.Connection, comment: ItemComment, *, number: int, expires_at: float | None) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO comments VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            comment.catalog_item_id,
            comment.id,
            number,
            comment.author_name,
            comment.text,
            comment.creation_date.isoformat(),
            expires_at,
        ),
    )


def put_rating(connection: sqlite3.Connection, rating: ItemRating, *, expires_at: float | None) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO ratings VALUES (?, ?, ?, ?, ?)",
        (rating.catalog_item_id, rating.id, rating.rating, rating.creation_date.isoformat(), expires_at),
    )


def is_item(connection: sqlite3.Connection, item_id: str) -> bool:
    """Whether the item is there, as a write sees it."""
    return connection.execute("SELECT 1 FROM items WHERE id = ?", (item_id,)).fetchone() is not None


def delete_item(connection: sqlite3.Connection, item_id: str) -> None:
    """The item, with its comments and ratings."""
    connection.execute("DELETE FROM items WHERE id = ?", (item_id,))
    connection.execute("DELETE FROM comments WHERE item_id = ?", (item_id,))
    connection.execute("DELETE FROM ratings WHERE item_id = ?", (item_id,))


def delete_comment(connection: sqlite3.Connection, item_id: str, comment_id: str) -> None:
    connection.execute("DELETE FROM comments WHERE item_id = ? AND id = ?", (item_id, comment_id))


def delete_rating(connection: sqlite3.Connection, item_id: str, rating_id: str) -> None:
    connection.execute("DELETE FROM ratings WHERE item_id = ? AND id = ?", (item_id, rating_id))


def _item(row: sqlite3.Row) -> CatalogItem:
    return CatalogItem(
        id=row["id"],
        name=row["name"],
        description=row["description"],
        price=Decimal(row["price"]),
        image_url=row["image_url"],
        last_updated=datetime.fromisoformat(row["last_updated"]),
    )


def _comment(row: sqlite3.Row) -> ItemComment:
    return ItemComment(
        id=row["id"],
        catalog_item_id=row["item_id"],
        author_name=row["author_name"],
        text=row["text"],
        creation_date=datetime.fromisoformat(row["creation_date"]),
    )


def _rating(row: sqlite3.Row) -> ItemRating:
    return ItemRating(
        id=row["id"],
        catalog_item_id=row["item_id"],
        rating=row["rating"],
        creation_date=datetime.fromisoformat(row["creation_date"]),
    )

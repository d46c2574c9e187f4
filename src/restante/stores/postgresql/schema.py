"""The tables, and how they are made. They lie in the first schema of the session's `search_path`.

`restante_shards` has the row that every commit moves: the fence of the owner and the number of the last commit.
`restante_leases` is apart from it, so that a renewal never waits for a commit. Values and blobs are stored as they are
(`EXTERNAL`): what is in them is compressed already, or too small, and of a large one a slice can be read by itself. Blobs lie
in parts, each with the size of the whole.
"""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg

from restante.errors import FormatUnsupported

Session = psycopg.Connection[tuple[Any, ...]]

OLDEST_SERVER = 14
LAYOUT = 1
"""The number of the layout of the tables below."""

_ONE_MAKER = 7_230_114
"""The advisory lock of whoever makes the tables: two hubs may start at once."""

_TABLES: LiteralString = """
CREATE TABLE restante_layout (layout integer PRIMARY KEY);
CREATE TABLE restante_shards (
    shard integer PRIMARY KEY,
    fence bigint NOT NULL,
    commits bigint NOT NULL
);
CREATE TABLE restante_leases (
    shard integer PRIMARY KEY,
    owner text,
    node text NOT NULL,
    pid integer NOT NULL,
    beat bigint NOT NULL,
    lease_milliseconds integer NOT NULL
);
CREATE TABLE restante_fences (partition integer PRIMARY KEY, fence bigint NOT NULL);
CREATE TABLE restante_entries (
    partition integer NOT NULL,
    space smallint NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (partition, space, key)
);
CREATE TABLE restante_blobs (
    partition integer NOT NULL,
    number bigint NOT NULL,
    part integer NOT NULL,
    size bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (partition, number, part)
);
ALTER TABLE restante_entries ALTER value SET STORAGE EXTERNAL;
ALTER TABLE restante_blobs ALTER data SET STORAGE EXTERNAL;
INSERT INTO restante_shards VALUES (0, 0, 0);
INSERT INTO restante_leases VALUES (0, NULL, '', 0, 0, 0);
INSERT INTO restante_layout VALUES (1);
"""


def layout_of(session: Session) -> int | None:
    """The number of the layout that is there, or None."""
    if not _one(session, "SELECT to_regclass('restante_layout') IS NOT NULL"):
        return None
    return int(_one(session, "SELECT max(layout) FROM restante_layout"))


def make_tables(session: Session) -> None:
    """Make what is missing, whole or not at all; `FormatUnsupported` if a newer version made the tables."""
    found = layout_of(session)
    if found is None:
        with session.transaction():
            session.execute("SELECT pg_advisory_xact_lock(%s)", (_ONE_MAKER,))
            if layout_of(session) is None:
                session.execute(_TABLES, prepare=False)
        found = layout_of(session)
    require_layout(found)


def require_layout(found: int | None) -> None:
    """`FormatUnsupported` if another version made the tables."""
    if found != LAYOUT:
        raise FormatUnsupported(
            f"The tables in the database have layout {found}; this version of Restante knows {LAYOUT}. "
            "Use the version that made them.",
            found=found,
            known=LAYOUT,
        )


def _one(session: Session, query: LiteralString) -> Any:  # noqa: ANN401  # whatever the column has
    row = session.execute(query).fetchone()
    assert row is not None
    return row[0]

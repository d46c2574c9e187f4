"""The tables, and their creation, in the first schema of the session's `search_path`.

`restante_shards` has a row for each shard: its first partition, the fence of its owner, and the number of the last commit,
which every commit raises, as does the end of one whose connection was lost. A shard ends where the next one begins. Rows stay
for ever, because nothing would fence a commit that found no row; a shard that no longer exists has no first partition.
`restante_leases` says who owns a shard, `restante_nodes` who is alive. These are separate tables, so that a renewal never waits
for a commit. Values and blobs are stored without compression (`EXTERNAL`): they are compressed already, or too small, and slices
of large ones can be read. Blobs are stored in parts, each with the size of the whole.
"""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg

from restante.errors import FormatUnsupported

Session = psycopg.Connection[tuple[Any, ...]]

OLDEST_SERVER = 14
LAYOUT = 2
"""The number of the layout of the tables below."""

_ONE_MAKER = 7_230_114
"""The advisory lock under which tables are made, because two hubs may start at once."""

_TABLES: LiteralString = """
CREATE TABLE restante_layout (layout integer PRIMARY KEY);
CREATE TABLE restante_shards (
    shard integer PRIMARY KEY,
    fence bigint NOT NULL,
    commits bigint NOT NULL
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
INSERT INTO restante_layout VALUES (1);
"""
_SEVERAL_SHARDS: LiteralString = """
DROP TABLE IF EXISTS restante_leases;
CREATE TABLE restante_leases (
    shard integer PRIMARY KEY,
    owner text,
    heir text,
    holder text,
    pid integer NOT NULL DEFAULT 0
);
CREATE TABLE restante_nodes (
    session text PRIMARY KEY,
    name text NOT NULL,
    beat bigint NOT NULL,
    lease_milliseconds integer NOT NULL,
    about bytea NOT NULL
);
ALTER TABLE restante_shards ADD COLUMN first_partition integer;
UPDATE restante_shards SET first_partition = 0;
INSERT INTO restante_leases (shard) SELECT shard FROM restante_shards;
ALTER TABLE restante_layout ADD COLUMN epoch bigint NOT NULL DEFAULT 0;
INSERT INTO restante_layout (layout) VALUES (2);
"""
_STEPS: tuple[LiteralString, ...] = (_TABLES, _SEVERAL_SHARDS)
"""The statements that bring the tables from each layout to the next."""


def layout_of(session: Session) -> int | None:
    """The layout number of the existing tables, or None."""
    if not _one(session, "SELECT to_regclass('restante_layout') IS NOT NULL"):
        return None
    return int(_one(session, "SELECT max(layout) FROM restante_layout"))


def make_tables(session: Session) -> None:
    """Make the missing tables, all or none. Raises `FormatUnsupported` if a newer version made the existing ones."""
    found = layout_of(session)
    if found is None or found < LAYOUT:
        with session.transaction():
            session.execute("SELECT pg_advisory_xact_lock(%s)", (_ONE_MAKER,))
            for step in _STEPS[layout_of(session) or 0 :]:
                session.execute(step, prepare=False)
        found = layout_of(session)
    require_layout(found)


def require_layout(found: int | None) -> None:
    """Raise `FormatUnsupported` if the tables have another layout."""
    if found != LAYOUT:
        remedy = "Use the version that made them." if (found or 0) > LAYOUT else "Run `restante migrate --store` first."
        raise FormatUnsupported(
            f"The tables in the database have layout {found}; this version of Restante knows {LAYOUT}. {remedy}",
            found=found,
            known=LAYOUT,
        )


def _one(session: Session, query: LiteralString) -> Any:  # noqa: ANN401  # whatever the column has
    row = session.execute(query).fetchone()
    assert row is not None
    return row[0]

"""The dialogue with a handler's database so that an action is done there once: only statements, no input and output.

A doer inserts its action into `restante_once`, first thing in its transaction. A second doer of the same action waits at
that row until the first one has committed, and then finds it there. `restante_fence` has for each partition the highest
generation that ever worked there. Each doer of that generation holds the row shared until it commits; a newer generation
raises it, so it waits for doers of the older one that are under way, and those that come later find themselves fenced.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, TypeAlias

SCHEMA = """\
CREATE TABLE IF NOT EXISTS restante_once (
    group_name TEXT NOT NULL,
    concerns TEXT NOT NULL,
    id TEXT NOT NULL,
    number BIGINT NOT NULL,
    done_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (group_name, concerns, id, number)
);
CREATE TABLE IF NOT EXISTS restante_fence (
    group_name TEXT NOT NULL,
    partition_number INTEGER NOT NULL,
    generation BIGINT NOT NULL,
    PRIMARY KEY (group_name, partition_number)
);
"""
"""The tables, for SQLite and PostgreSQL alike."""

_INSERT_ONCE = (
    "INSERT INTO restante_once (group_name, concerns, id, number) VALUES (:group, :concerns, :id, :number) "
    "ON CONFLICT DO NOTHING"
)
_INSERT_FENCE = (
    "INSERT INTO restante_fence (group_name, partition_number, generation) VALUES (:group, :partition, :generation) "
    "ON CONFLICT DO NOTHING"
)
_RAISE_FENCE = (
    "UPDATE restante_fence SET generation = :generation "
    "WHERE group_name = :group AND partition_number = :partition AND generation < :generation"
)
_READ_FENCE = "SELECT generation FROM restante_fence WHERE group_name = :group AND partition_number = :partition"


class Fenced(Exception):
    """Another worker has the partition meanwhile: roll back. Nothing is reported, and the other one does the action."""


class OnceKey(NamedTuple):
    """Which action, and under which generation of its partition."""

    group: str
    concerns: str
    id: str
    number: int
    partition: int
    generation: int

    @property
    def values(self) -> Mapping[str, Any]:
        return self._asdict()


class Statement(NamedTuple):
    """A statement to be executed; the reply is the first value of the first row if it reads, else how many rows it wrote."""

    text: str
    """With names of values as `:name`."""
    reads: bool = False


OnceDialogue: TypeAlias = Generator[Statement, int | None, bool]


def once_dialogue(key: OnceKey, *, share: str) -> OnceDialogue:
    """Whether the action is to be done now. `share` ends a statement that holds the row it reads against changes."""
    written = yield Statement(_INSERT_ONCE)
    if not written:
        return False
    known = yield Statement(_READ_FENCE, reads=True)
    if known is None:
        yield Statement(_INSERT_FENCE)
    elif known < key.generation:
        # Never from a shared hold: two that both held it would wait for each other.
        yield Statement(_RAISE_FENCE)
    in_force = yield Statement(_READ_FENCE + share, reads=True)
    if in_force is not None and in_force > key.generation:
        raise Fenced(
            f"Generation {in_force} works on partition {key.partition} of {key.group} now; this is {key.generation}."
        )
    return True

"""The facts that a handler may know of the action that it does."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import msgspec

from restante.model.actions.action_kind import CORRELATION_PROPERTY, TRACE_PROPERTY
from restante.model.work.core import WorkAttempt
from restante.work.once.connections import once
from restante.work.once.dialogue import OnceKey


class ActionJob(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at an action."""

    group: str
    id: str
    action: str
    concerns: str
    attempt: int
    """1 for the first."""
    partition: int
    number: int
    generation: int
    published_at: datetime
    properties: Mapping[str, str]

    def once(self, connection: Any) -> Any:  # noqa: ANN401 - of any driver; a bool, or to be awaited for one
        """Whether the action is to be done in this transaction: false if it was done and committed before.

        Call it first thing in the transaction, `if not job.once(connection): return`; with `await` if the connection is
        asynchronous. `Fenced` if another worker has the partition meanwhile. The tables: `restante work --schema`.

        ```python
        with pool.connection() as connection:
            if job.once(connection):
                connection.execute("UPDATE orders SET paid = true WHERE id = %s", [job.concerns])
        ```
        """
        key = OnceKey(self.group, self.concerns, self.id, self.number, self.partition, self.generation)
        return once(key, connection)

    @property
    def correlation_id(self) -> str | None:
        return self.properties.get(CORRELATION_PROPERTY)

    @property
    def traceparent(self) -> str | None:
        """The trace that the action belongs to, as W3C Trace Context writes it."""
        return self.properties.get(TRACE_PROPERTY)


current_job: ContextVar[ActionJob | None] = ContextVar("restante_job", default=None)
"""The job that the code is working on, for its logs and for what it sends."""


def job_of(group: str, attempt: WorkAttempt) -> ActionJob:
    action = attempt.action
    return ActionJob(
        group=group,
        id=action.id,
        action=action.name or "",
        concerns=action.concerns,
        attempt=attempt.number,
        partition=attempt.partition,
        number=action.number,
        generation=attempt.generation,
        published_at=datetime.fromtimestamp(action.accepted_at, UTC),
        properties=action.properties,
    )

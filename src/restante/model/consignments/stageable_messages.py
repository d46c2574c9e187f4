"""The check for messages that cannot be staged for a consignment."""

from __future__ import annotations

from restante.errors import InvalidRequest
from restante.model.actions.action_columns import action_rows_of
from restante.model.publishing.delay import are_delayed, refuse_combined
from restante.model.publishing.message import ACTION_KIND, MessageColumns
from restante.model.sources.source import refuse_positions


def check_stageable(columns: MessageColumns, now: int) -> None:
    """Refuse source positions, delayed messages and actions."""
    refuse_positions(columns)
    if are_delayed(columns, now):
        raise refuse_combined("a consignment")
    if len(action_rows_of(columns)):
        raise InvalidRequest(
            f"A message of the kind {ACTION_KIND} is something to be done, and cannot be staged: send it with POST /v1/actions.",
            field="kind",
        )

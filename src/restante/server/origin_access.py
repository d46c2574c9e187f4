"""Whether a token may publish what it sends: every origin in it must be one of its own."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from restante.errors import Forbidden
from restante.model.access import Grant, Role
from restante.model.arrow import strings_of
from restante.model.message import Message

DEFAULT_ORIGIN = "default"


def check_origins(grant: Grant, sent: Sequence[Message] | pa.Table) -> None:
    if grant.origins is None or Role.OPERATOR in grant.roles:
        return
    for origin in _origins(sent):
        if not grant.may_publish(origin):
            raise Forbidden(f"The token {grant.name} may not publish for the origin {origin!r}.", origin=origin)


def _origins(sent: Sequence[Message] | pa.Table) -> set[str]:
    if not isinstance(sent, pa.Table):
        return {message.origin for message in sent}
    if "origin" not in sent.column_names:
        return {DEFAULT_ORIGIN}
    column = sent.column("origin")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    distinct = pc.unique(column.cast(pa.string()))
    return set(strings_of(distinct.drop_null())) | ({DEFAULT_ORIGIN} if column.null_count else set())

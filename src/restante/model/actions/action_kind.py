"""Which messages are actions: those of one kind, named by one property."""

from __future__ import annotations

from restante.decoders import json_decoder
from restante.model.publishing.message import ACTION_KIND

__all__ = ["ACTION_KIND", "ACTION_PROPERTY", "CORRELATION_PROPERTY", "TRACE_PROPERTY", "name_and_text"]

ACTION_PROPERTY = "action"
"""The property that has the action's name."""
CORRELATION_PROPERTY = "correlation_id"
TRACE_PROPERTY = "traceparent"

_decoder = json_decoder(dict[str, str])


def name_and_text(properties: bytes) -> tuple[str, str]:
    """The action's name and the text of its id, from stored properties; empty where there is none."""
    from restante.model.columns.text_ids import unpacked  # noqa: PLC0415 - help and a send of one need no columns

    text, own = unpacked(properties)
    name = _decoder.decode(own).get(ACTION_PROPERTY, "") if own else ""
    return name, text or ""

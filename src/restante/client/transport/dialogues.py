"""`Dialogues`: which dialogue over HTTP carries out which call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from restante.calls.call import Answer, Call
from restante.client.transport.exchange import Dialogue
from restante.client.transport.options import Terms

Dialogues: TypeAlias = Mapping[type[Call[Any]], Callable[[Terms, Any], Dialogue[Any]]]
"""A table from the type of a call to its dialogue."""


def dialogue_of(dialogues: Dialogues, terms: Terms, call: Call[Answer]) -> Dialogue[Answer]:
    """The dialogue that carries out this call."""
    return dialogues[type(call)](terms, call)

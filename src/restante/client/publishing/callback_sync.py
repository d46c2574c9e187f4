"""Calling the callbacks of a buffered producer, for programs that wait."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from restante.errors import RestanteError
from restante.model.publishing.message import Message

OnSuccess: TypeAlias = Callable[[Sequence[Message], int], object]
OnError: TypeAlias = Callable[[Sequence[Message], int, RestanteError], object]

_log = logging.getLogger(__name__)


def call_back(callback: Callable[[], object]) -> None:
    """Call a callback. What it raises is logged, and harms nobody."""
    try:
        callback()
    except BaseException:  # noqa: BLE001 - not even an exit may end this thread: others depend on it
        _log.exception("A callback of the buffered producer failed.")

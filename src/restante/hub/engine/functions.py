"""`Functions`: which function of a subject carries out which call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from restante.calls.call import Call
from restante.hub.engine.core import Core
from restante.model.access.access import Grant

Functions: TypeAlias = Mapping[type[Call[Any]], Callable[[Core, Any, Grant], Any]]
"""A table from the type of a call to the function that answers it, for a caller who may do what the `Grant` says."""

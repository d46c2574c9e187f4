"""Whether a caller may publish what it sends: every origin in it must be one of its own.

Only origins that the message rules have passed are looked at. Before that, a column may hold anything.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from restante.errors import Forbidden
from restante.limits import ORIGIN_CHARACTERS_MAX
from restante.model.access.access import Grant
from restante.model.columns.arrow import strings_of
from restante.model.columns.texts import Texts


def check_origins(caller: Grant, origins: Texts) -> None:
    """`Forbidden`, if one of these origins is not the caller's to publish for."""
    allowed = caller.publishable()
    if allowed is None:
        return
    for origin in strings_of(origins.values):
        if origin not in allowed:
            raise foreign(caller, origin)


def foreign_rows(caller: Grant, origins: Texts) -> NDArray[np.bool_]:
    """The rows with an origin that is not the caller's to publish for."""
    allowed = caller.publishable()
    if allowed is None:
        return np.zeros(len(origins), np.bool_)
    found = np.array([origin not in allowed for origin in strings_of(origins.values)], np.bool_)
    return found[origins.codes]


def foreign(caller: Grant, origin: str) -> Forbidden:
    """The refusal of one origin. The message shows the origin cut to a short length, and only its printable characters."""
    cut = origin[:ORIGIN_CHARACTERS_MAX]
    shown = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in cut)
    return Forbidden(f"The token {caller.name} may not publish for the origin {shown!r}.", origin=shown)

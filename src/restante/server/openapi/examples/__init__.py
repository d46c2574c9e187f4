"""The examples of the routes: requests and their answers, by subject and by the names of the operations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

from restante.decoders import json_decoder


class Example(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request as it is sent to a hub on which the examples named in `after` were done before, and its answer.

    A test does all of them, on a hub whose clock stands still at `CLOCK`. `answer` is the body of the answer, to the
    letter, less what a hub cannot know before (its address and how long things take). A problem has `code` instead. The
    hub makes the ids of consignments, so the one that stands in examples is replaced by the one that it made.
    """

    name: str
    text: str
    target: str
    status: int
    headers: Mapping[str, str] = {}
    body: object = None
    """A value that is sent as JSON."""
    body_base64: bytes | None = None
    """Sent as it is."""
    answer: object = None
    answer_headers: Mapping[str, str] = {}
    code: str | None = None
    after: tuple[str, ...] = ()


CLOCK = 1_896_091_200_000_000
"""2030-01-31T12:00:00Z in microseconds since 1970: when all examples happen."""


@cache
def examples() -> Mapping[str, tuple[Example, ...]]:
    """All examples, by the names of the operations."""
    found: dict[str, tuple[Example, ...]] = {}
    for file in files(__name__).iterdir():
        if file.name.endswith(".json"):
            found |= json_decoder(dict[str, tuple[Example, ...]]).decode(file.read_bytes())
    return found

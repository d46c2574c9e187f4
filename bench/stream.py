"""All mail of a store, read from the start: who has it, and the ways to read it.

A peer's ways are `STREAMS` of its file in `bench.peers`. Everybody is given the same messages before, durably, and gives
them back as its library gives them to a program: we and those like us columns, others rows.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from bench.mail import Mail, recipient_names

KINDS = tuple(f"kind-{number:02d}" for number in range(10))
"""As long as that of `bench.mail`, which some peers count on."""
CHUNKS = (10_000, 100_000)

Read = Callable[[], int]
"""Reads everything from the start, and gives how many messages that were."""


class Stream:
    """The mail of one server."""

    server: ClassVar[str]
    """The name of the server that it is on."""
    lesser: ClassVar[frozenset[str]] = frozenset()
    """Ways that give a program less than the messages: no goal refers to them."""

    def __init__(self, server: Any) -> None:
        raise NotImplementedError

    def fill(self, parcels: Sequence[pa.Table]) -> None:
        """Not timed: these messages and no others, durably."""
        raise NotImplementedError

    def ways(self) -> Mapping[str, Read]:
        """The ways to read, by name, which begins with that of the server."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def mixed_parcels(mail: Mail, *, recipients: int, messages: int, parcel: int) -> list[pa.Table]:
    """Messages of ten kinds, in random order."""
    names, random = recipient_names(recipients), np.random.default_rng()
    made = []
    for _ in range(messages // parcel):
        table = mail.table(names, parcel)
        drawn = random.integers(0, len(KINDS), parcel, dtype=np.int32)
        kinds = pa.DictionaryArray.from_arrays(drawn, pa.array(KINDS))
        made.append(table.set_column(table.schema.get_field_index("kind"), "kind", kinds))
    return made


def of_kind(parcels: Sequence[pa.Table], kind: str) -> int:
    """How many messages are of this kind."""
    return sum(parcel.column("kind").to_pylist().count(kind) for parcel in parcels)


def kinds_of_streams() -> list[type[Stream]]:
    """Every peer's."""
    names = sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent / "peers")]))
    modules = [importlib.import_module(f"bench.peers.{name}") for name in names]
    return [kind for module in modules for kind in getattr(module, "STREAMS", ())]

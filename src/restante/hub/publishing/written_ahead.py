"""The mailbags of a large publish, written by its caller's thread ahead of the commit that names them.

To write and flush megabytes takes milliseconds. Were they part of the commit, every small publish would wait for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from restante.hub.engine.commit_request import CommitRequest
from restante.hub.engine.core import Core
from restante.hub.publishing.publish_request import LaidOut, PublishRequest
from restante.limits import KIB

_AHEAD_BYTES_MIN = 256 * KIB
"""Smaller mailbags lie in the record of their commit."""


@contextmanager
def written_ahead(core: Core, request: CommitRequest[Any]) -> Iterator[None]:
    """While inside, the request is committed. Its mailbags are written before, and given up if no commit came to name them.

    If it is not known whether one does, they stay: the next opening of the store drops what nobody names.
    """
    parcel = _parcel_of(core, request)
    if parcel is None:
        yield
        return
    _write(core, parcel)
    try:
        yield
    except Exception:
        _give_up_unnamed(core, parcel)
        raise
    _give_up_unnamed(core, parcel)


def _parcel_of(core: Core, request: CommitRequest[Any]) -> LaidOut | None:
    """The mailbags of a request that are worth it. A store that is far away takes them with the commit: one journey less."""
    if core.store.shared or not isinstance(request, PublishRequest) or request.unit is None:
        return None
    parcel = request.unit.parcel
    large = parcel is not None and sum([segment.length for segment in parcel.segments]) > _AHEAD_BYTES_MIN
    return parcel if large else None


def _write(core: Core, parcel: LaidOut) -> None:
    blobs = tuple(core.partitions[segment.group].take_blob() for segment in parcel.segments)
    parts = [(blob, segment.parts) for blob, segment in zip(blobs, parcel.segments, strict=True)]
    try:
        core.store.put_blobs(parts, fence=core.fence)
    except Exception:
        core.pins.bury(blobs)  # some of them may be there
        raise
    parcel.blobs = blobs


def _give_up_unnamed(core: Core, parcel: LaidOut) -> None:
    if not parcel.named:
        core.pins.bury(parcel.blobs)

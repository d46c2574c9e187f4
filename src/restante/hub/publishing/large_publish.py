"""Large publishes: laid out by the clerk while others commit, and written ahead of the commit that names them.

Mailbags that the clerk made do not hold the interpreter of those who commit; they are judged here, for only the hub knows what is
stored, and if the clerk cannot make them, nothing is lost but time. To write and flush megabytes takes milliseconds: the caller's
thread does it, so that no small publish waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from restante.hub.engine.commit_request import CommitRequest
from restante.hub.engine.core import Core
from restante.hub.mailboxes.origins import claim_check_origins
from restante.hub.publishing.publish_request import LaidOut, PublishRequest
from restante.limits import KIB
from restante.model.publishing.bulk_parcel import BulkParcel
from restante.model.publishing.few_or_many import Few, Many, UndecodedBody
from restante.ports.clerk import BulkTerms

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


_BYTES_MIN = 256 * KIB
"""Smaller bodies are laid out here as quickly as they are handed over."""
_BUSY_COMMITS_PER_SECOND = 50
_LOOK_SECONDS = 0.2
_STALE_SECONDS = 2.0


class OtherCommits:
    """How many commits there are lately, those of small publishes above all."""

    def __init__(self) -> None:
        self._at = 0.0
        self._commits = 0
        self._busy = False

    def are_many(self, commits: int) -> bool:
        """Whether there are many, of which there have been so many since the hub was opened."""
        now = time.monotonic()
        seconds = now - self._at
        if seconds >= _LOOK_SECONDS:
            self._busy = seconds < _STALE_SECONDS and commits - self._commits >= _BUSY_COMMITS_PER_SECOND * seconds
            self._at, self._commits = now, commits
        return self._busy


def laid_out_elsewhere(core: Core, sent: Few | Many) -> BulkParcel | None:
    """The mailbags of a large body; None if they are to be made here."""
    content = sent.content if isinstance(sent, Many) else None
    if not isinstance(content, UndecodedBody) or len(content.body) < _BYTES_MIN or not core.clerk.lays_out:
        return None
    if not core.memory(OtherCommits).are_many(core.committer.totals.commits):
        return None
    terms = BulkTerms(
        core.deed.key,
        core.deed.partition_count,
        sorted(claim_check_origins(core)),
        core.settings.data_bytes_max,
        core.clock(),
    )
    return core.clerk.laid_out(content.body, terms)

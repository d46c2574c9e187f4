"""Large publishes: the clerk lays out their mailbags, and their blobs are written ahead of the commit that names them.

While the clerk lays out mailbags, the hub's interpreter is free for commits. The messages are still judged in the hub, which
alone knows what is stored. If the clerk cannot lay them out, the hub does. Writing and flushing megabytes takes
milliseconds, so the caller's thread does it, and no small publish waits.
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
"""Mailbags up to this size are written as part of their commit."""


@contextmanager
def written_ahead(core: Core, request: CommitRequest[Any]) -> Iterator[None]:
    """Write the mailbags of a request on entry; the caller commits the request inside. Bury them if no commit names them.

    If it is unknown whether a commit names them, they stay, and the next opening of the store drops them if none does.
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
    """The request's mailbags if they are large enough. A shared store gets them with the commit, which saves a round trip."""
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
        core.pins.bury(blobs)  # Some blobs may have been written.
        raise
    parcel.blobs = blobs


def _give_up_unnamed(core: Core, parcel: LaidOut) -> None:
    if not parcel.named:
        core.pins.bury(parcel.blobs)


_BYTES_MIN = 256 * KIB
"""Handing a smaller body to the clerk takes as long as laying it out here."""
_BUSY_COMMITS_PER_SECOND = 50
_LOOK_SECONDS = 0.2
_STALE_SECONDS = 2.0


class OtherCommits:
    """Estimates how busy the committer is, from the number of commits."""

    def __init__(self) -> None:
        self._at = 0.0
        self._commits = 0
        self._busy = False

    def are_many(self, commits: int) -> bool:
        """Whether commits have been frequent lately; `commits` is their number since the hub was opened."""
        now = time.monotonic()
        seconds = now - self._at
        if seconds >= _LOOK_SECONDS:
            self._busy = seconds < _STALE_SECONDS and commits - self._commits >= _BUSY_COMMITS_PER_SECOND * seconds
            self._at, self._commits = now, commits
        return self._busy


def laid_out_elsewhere(core: Core, sent: Few | Many) -> BulkParcel | None:
    """The mailbags of a large body, laid out by the clerk; None if they must be laid out here."""
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

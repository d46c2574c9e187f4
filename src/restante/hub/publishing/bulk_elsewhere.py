"""Large publishes that the clerk lays out, while others commit: then they do not hold the interpreter of those.

What comes back is judged here, for only the hub knows what is stored. If the clerk cannot, nothing is lost but time.
"""

from __future__ import annotations

import time

from restante.hub.engine.core import Core
from restante.hub.mailboxes.origins import claim_check_origins
from restante.limits import KIB
from restante.model.publishing.bulk_parcel import BulkParcel
from restante.model.publishing.few_or_many import Few, Many, UndecodedBody
from restante.ports.clerk import BulkTerms

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

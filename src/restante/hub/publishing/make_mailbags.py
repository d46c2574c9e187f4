"""Preparing messages for a commit: route them, give them ids, and lay them out as mailbags."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from restante.hub.engine.core import Core
from restante.hub.publishing.publish_request import LaidOut
from restante.model.publishing import intake
from restante.model.publishing.arrival import Arrivals, Grouped, arrive, mailbags, places
from restante.model.publishing.bulk_parcel import BulkParcel
from restante.model.publishing.message import MessageColumns


def arrived(core: Core, columns: MessageColumns) -> Arrivals:
    made = int(columns.made_id.sum())
    if made:
        random = core.random(made * intake.RANDOM_BYTES_PER_ID)
        columns = intake.fill_made_ids(columns, now_ms=core.clock() // 1000, random=random)
    return owned_arrivals(core, arrive(columns, key=core.deed.key, partition_count=core.deed.partition_count))


def owned_arrivals(core: Core, arrivals: Arrivals) -> Arrivals:
    """The arrivals; raises `NotOwner` if one is for a partition of another shard."""
    if core.shard is not None:
        for partition in np.unique(arrivals.partition).tolist():
            core.require_owned(partition)
    return arrivals


def laid_out(core: Core, arrivals: Arrivals, grouped: Grouped) -> LaidOut:
    place, counts = places(arrivals.partition, core.deed.partition_count)
    now = core.clock()
    segments = mailbags(arrivals, place, published_at=now, key=core.deed.key)
    return LaidOut(arrivals, grouped, place, counts, segments, now)


def laid_elsewhere(laid: BulkParcel) -> LaidOut:
    return LaidOut(laid.arrivals, laid.grouped, laid.place, laid.counts, laid.segments, laid.published_at)


def taken(arrivals: Arrivals, rows: NDArray[np.int64]) -> Arrivals:
    """The arrivals of these rows."""
    columns = arrivals.columns.take(rows)
    # `take` may drop recipients that no row uses, which changes the codes, so look the hashes up by the names.
    kept = pc.index_in(columns.recipient.values, arrivals.columns.recipient.values).to_numpy(zero_copy_only=False)
    return Arrivals(columns, arrivals.recipient_hash[kept], arrivals.partition[rows], arrivals.fingerprint[rows])

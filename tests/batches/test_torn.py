"""A log cut anywhere: a hub shows batches as they were after one of the calls that were answered, and nothing half."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from restante.assembly import open_hub
from restante.calls.batches import (
    AcknowledgeItems,
    AddItems,
    DeleteBatch,
    ListBatches,
    ListPendingItems,
    OpenBatch,
    SealBatch,
)
from restante.hub.door.hub import OpenHub
from restante.model.batches.batch_answers import BatchStatus, ItemRange
from restante.stores.sqlite import SqliteStore
from tests.batches.folding import fold_batches
from tests.batches.places import SETTINGS
from tests.batches.wishes import CHUNK, SEGMENT
from tests.crash.test_torn import LOG_NAME
from tests.hub.engines import FakeClock

FIRST, SECOND = (str(UUID(int=number)) for number in (1, 2))
SIZE = SEGMENT + 3 * CHUNK
LOOKED_AT = 200

Act = Callable[[OpenHub], object]


def open_one(batch_id: str) -> Act:
    return lambda hub: hub.call(OpenBatch(batch_id=batch_id, key="night", unique=True))


def add(batch_id: str, count: int) -> Act:
    return lambda hub: hub.call(AddItems(batch_id, count))


def items(*indices: int, batch_id: str = FIRST) -> Act:
    return lambda hub: hub.call(AcknowledgeItems([f"{batch_id}:0:{index}" for index in indices]))


def ranges(*spans: tuple[int, int]) -> Act:
    return lambda hub: hub.call(
        AcknowledgeItems(ranges=[ItemRange(group=f"{FIRST}:0", start=start, upto=upto) for start, upto in spans])
    )


def fold(hub: OpenHub) -> None:
    assert fold_batches(hub)


ACTS: list[Act] = [
    open_one(FIRST),
    add(FIRST, SIZE),
    items(0, 2, CHUNK - 1, CHUNK, SIZE - 1),
    ranges((10, 12), (CHUNK, SEGMENT)),
    fold,
    items(3, 5, 7),
    lambda hub: hub.call(SealBatch(FIRST)),
    open_one(SECOND),
    add(SECOND, 3),
    lambda hub: hub.call(AcknowledgeItems([f"{FIRST}:0:9", f"{SECOND}:0:0"])),
    fold,
    items(1, batch_id=SECOND),
    ranges((0, SIZE)),
    lambda hub: hub.call(DeleteBatch(SECOND)),
]
"""Each answered. One of them completes a batch; one names two batches."""


class Seen(NamedTuple):
    statuses: tuple[BatchStatus, ...]
    pending: tuple[tuple[str, ...], ...]


class Recorded(NamedTuple):
    folder: Path
    log: bytes
    seen: list[Seen]
    """After each act."""
    lengths: list[int]
    """Of the log, then."""


def look(hub: OpenHub) -> Seen:
    found = hub.call(ListBatches()).batches
    return Seen(found, tuple(hub.call(ListPendingItems(each.id, limit=LOOKED_AT)).items for each in found))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A folder as it lies on the disk after all acts, none of its log transferred."""
    folder, clock = tmp_path_factory.mktemp("torn"), FakeClock()
    hub = open_hub(folder / "live", settings=SETTINGS, clock=clock)
    store = hub._core.store
    assert isinstance(store, SqliteStore)
    store.checkpoint()
    before, seen, lengths = store._log.written_bytes, list[Seen](), list[int]()
    for act in [lambda _: None, *ACTS]:
        act(hub)
        clock.advance(10)
        seen.append(look(hub))
        lengths.append(store._log.written_bytes - before)
    shutil.copytree(folder / "live", folder / "crashed", ignore=shutil.ignore_patterns("*-shm", "lock"))
    hub.close()
    log = (folder / "crashed" / LOG_NAME).read_bytes()
    return Recorded(folder / "crashed", log[: lengths[-1]], seen, lengths)


def seen_after(recorded: Recorded, folder: Path, log: bytes) -> Seen:
    """What a hub shows whose log is this; having folded, it shows the same."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(recorded.folder, folder)
    (folder / LOG_NAME).write_bytes(log)
    hub = open_hub(folder, settings=SETTINGS, clock=FakeClock())
    try:
        found = look(hub)
        fold_batches(hub)
        assert look(hub) == found
    finally:
        hub.close()
    return found


def test_the_acts_each_write_something(recorded: Recorded) -> None:
    assert recorded.lengths[0] == 0
    assert all(one < other for one, other in itertools.pairwise(recorded.lengths))


def test_a_log_cut_anywhere_shows_batches_as_they_were_after_an_answer(recorded: Recorded, tmp_path: Path) -> None:
    generator, length = random.Random(1), len(recorded.log)
    near = {end + more for end in recorded.lengths for more in (-1, 0, generator.randrange(2, 200))}
    for cut in sorted(cut for cut in near if 0 <= cut <= length):
        found = seen_after(recorded, tmp_path / "cut", recorded.log[:cut])
        answered = max(at for at, end in enumerate(recorded.lengths) if end <= cut)
        assert found in recorded.seen, f"something half, cut at {cut}"
        last = len(recorded.seen) - 1 - recorded.seen[::-1].index(found)
        assert last >= answered, f"answered and lost, cut at {cut}"

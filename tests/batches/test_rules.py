"""Single rules of batches, each by its example, where many calls at random would hide what went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.calls.batches import AcknowledgeItems, AddItems, OpenBatch, ReapBatches, SealBatch
from restante.hub.door.hub import OpenHub
from restante.model.batches.batch_answers import ItemRange
from tests.batches.places import DAY, HOUR, PLACES
from tests.batches.wishes import NOBODY
from tests.hub.engines import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=list(PLACES))
def hub(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[OpenHub]:
    opened = PLACES[request.param](tmp_path / "data").open(clock)
    yield opened
    opened.close()


def batch_of(hub: OpenHub, count: int) -> tuple[str, str]:
    """A batch with so many items: its id, and `<batch>:<group>`."""
    batch_id = hub.call(OpenBatch()).id
    (group,) = hub.call(AddItems(batch_id, count)).groups
    return batch_id, f"{batch_id}:{group.id}"


def test_what_is_unknown_is_told_in_the_order_in_which_it_was_sent(hub: OpenHub) -> None:
    _, group = batch_of(hub, 1)
    known, unknown = ItemRange(group=group, start=0, upto=2), ItemRange(group=f"{NOBODY}:0", start=0, upto=5)
    for ranges in ((known, unknown), (unknown, known)):
        answer = hub.call(
            AcknowledgeItems([f"{NOBODY}:0:7", f"{group}:0", f"{group}:1", f"{NOBODY}:0:6"], ranges=ranges)
        )
        assert answer.unknown == (f"{NOBODY}:0:7", f"{group}:1", f"{NOBODY}:0:6", *ranges)


def test_a_complete_batch_that_is_acknowledged_again_is_in_use(hub: OpenHub, clock: FakeClock) -> None:
    batch_id, group = batch_of(hub, 1)
    hub.call(AcknowledgeItems([f"{group}:0"]))
    assert hub.call(SealBatch(batch_id)).complete
    clock.advance(6 * DAY)
    assert hub.call(AcknowledgeItems([f"{group}:0"])).acknowledged == 0
    clock.advance(6 * DAY)
    assert hub.call(ReapBatches()).batches == ()


def test_an_open_batch_that_is_acknowledged_again_is_in_use(hub: OpenHub, clock: FakeClock) -> None:
    batch_id, group = batch_of(hub, 2)
    for _ in range(3):
        clock.advance(1.5 * HOUR)
        hub.call(AcknowledgeItems([f"{group}:0"]))
        assert hub.call(ReapBatches()).batches == ()
    clock.advance(2 * HOUR)
    (reaped,) = hub.call(ReapBatches()).batches
    assert reaped.id == batch_id

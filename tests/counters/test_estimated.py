"""Estimated batches of a hub, counted on a real server: what survives, and what a lost counter does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from restante import errors
from restante.assembly import open_hub
from restante.calls.batches import AcknowledgeItems, AddItems, DeleteBatch, OpenBatch, ReadBatch, SealBatch
from restante.hub.door.hub import OpenHub
from restante.model.batches.batch_answers import BatchState, Counting, ItemRange
from restante.settings import Settings
from tests.counters.valkey import ValkeyServer


@contextmanager
def counting_hub(folder: Path, url: str) -> Iterator[OpenHub]:
    settings = Settings(partition_count=2, filing=False, housekeeping_seconds=0, counters_url=url)
    hub = open_hub(folder, settings=settings)
    try:
        yield hub
    finally:
        hub.close()


def opened(hub: OpenHub, items: int) -> tuple[str, str]:
    """A sealed batch and its group."""
    batch = hub.call(OpenBatch(key="night", counting=Counting.ESTIMATED)).id
    (group,) = hub.call(AddItems(batch, items)).groups
    hub.call(SealBatch(batch))
    return batch, f"{batch}:{group.id}"


def test_the_counter_completes_a_batch_across_restarts_of_the_hub(server: ValkeyServer, tmp_path: Path) -> None:
    with counting_hub(tmp_path, server.url) as hub:
        batch, group = opened(hub, 10)
        hub.call(AcknowledgeItems(ranges=[ItemRange(group=group, start=0, upto=6)]))
        assert hub.call(ReadBatch(batch)).pending == 4
    with counting_hub(tmp_path, server.url) as hub:
        assert hub.call(ReadBatch(batch)).pending == 4
        answer = hub.call(AcknowledgeItems([f"{group}:{index}" for index in range(6, 10)]))
        assert [complete.id for complete in answer.complete] == [batch]
        assert hub.call(ReadBatch(batch)).state is BatchState.COMPLETE


def test_a_lost_counter_means_that_all_is_pending_and_never_that_it_is_complete(tmp_path: Path) -> None:
    server = ValkeyServer(tmp_path)
    with counting_hub(tmp_path / "data", server.url) as hub:
        batch, group = opened(hub, 10)
        hub.call(AcknowledgeItems(ranges=[ItemRange(group=group, start=0, upto=9)]))
        with redis.Redis(port=server.port) as client:
            client.flushall()
        assert (hub.call(ReadBatch(batch)).pending, hub.call(ReadBatch(batch)).state) == (10, BatchState.SEALED)
        assert hub.call(AcknowledgeItems([f"{group}:9"])).complete == ()
        assert hub.call(ReadBatch(batch)).pending == 9
    server.stop()


def test_while_the_counters_are_away_acknowledging_is_refused_and_other_batches_go_on(tmp_path: Path) -> None:
    server = ValkeyServer(tmp_path)
    with counting_hub(tmp_path / "data", server.url) as hub:
        batch, group = opened(hub, 2)
        server.stop()
        with pytest.raises(errors.Unavailable):
            hub.call(AcknowledgeItems([f"{group}:0"]))
        exact = hub.call(OpenBatch()).id
        (other,) = hub.call(AddItems(exact, 1)).groups
        hub.call(SealBatch(exact))
        assert [complete.id for complete in hub.call(AcknowledgeItems([f"{exact}:{other.id}:0"])).complete] == [exact]
        server.start()
        answer = hub.call(AcknowledgeItems([f"{group}:0", f"{group}:1"]))
        assert [complete.id for complete in answer.complete] == [batch]
    server.stop()


def test_a_deleted_batch_leaves_no_counter(server: ValkeyServer, tmp_path: Path) -> None:
    with counting_hub(tmp_path, server.url) as hub, redis.Redis(port=server.port) as client:
        client.flushall()
        batch, group = opened(hub, 2)
        hub.call(AcknowledgeItems([f"{group}:0"]))
        assert client.dbsize() == 1
        hub.call(DeleteBatch(batch))
        assert client.dbsize() == 0

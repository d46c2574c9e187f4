"""Sources over several shards: pages of all are as long as was asked for, and nothing is told twice or left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from restante.calls.producers import ListSources
from restante.calls.publishing import Publish
from restante.errors import InvalidRequest
from restante.settings import Settings
from tests.cluster.door_hub import DoorHub
from tests.sources.records import record, records

SETTINGS = Settings(partition_count=4, filing=False, housekeeping_seconds=0)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[DoorHub]:
    with closing(DoorHub(tmp_path / "data", SETTINGS)) as made:
        yield made


def test_pages_are_as_long_as_was_asked_for(hub: DoorHub) -> None:
    for number in range(7):
        # Some are in one shard, others in several.
        sent = records(range(6)) if number % 2 else [record(0, recipient=f"r{number}")]
        hub.call(Publish.of(sent, source=f"s{number}"))
    pages, after = [], None
    while True:
        page = hub.call(ListSources(limit=2, after=after))
        pages.append([(own.source, own.messages) for own in page.sources])
        after = page.next
        if after is None:
            break
    assert [len(page) for page in pages] == [2, 2, 2, 1]
    assert [own for page in pages for own in page] == [(f"s{number}", 6 if number % 2 else 1) for number in range(7)]
    with pytest.raises(InvalidRequest):
        hub.call(ListSources(after="!"))

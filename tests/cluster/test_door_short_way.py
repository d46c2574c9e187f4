"""Small publishes go through a door without its application; nobody can tell by the answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from restante.model.storage.partition import partition_of
from restante.server.doors.door_publish import DoorPublish
from restante.server.short_routes.short_route import ShortRoute
from tests.cluster.several import SeveralHub
from tests.cluster.test_doors import names
from tests.server.wire import Wire


@pytest.fixture
def several(tmp_path: Path) -> Iterator[SeveralHub]:
    running = SeveralHub(tmp_path / "data", shards=2, doors=1)
    yield running
    running.stop()


@pytest.fixture
def wire(several: SeveralHub) -> Iterator[Wire]:
    wire = Wire(several.url)
    everybody = [names(shard, several=2)[0] for shard in range(2)]
    for name in everybody:
        assert wire.publish({"recipient": name, "data": "the line is open"}).status == 201
    yield wire
    wire.close()


@pytest.fixture
def ways() -> Iterator[list[bool]]:
    """For each request that came to the short way of the door, whether it went it."""
    taken: list[bool] = []
    take = ShortRoute._taken

    def noted(self: ShortRoute[Any], *given: Any) -> object:
        answer = take(self, *given)
        if isinstance(self, DoorPublish):
            taken.append(answer is not None)
        return answer

    with patch.object(ShortRoute, "_taken", noted):
        yield taken


def test_a_small_publish_goes_to_its_shard_and_is_answered(wire: Wire, ways: list[bool]) -> None:
    for shard in range(2):
        name = names(shard, 2, several=2)[1]
        answer = wire.publish({"recipient": name, "data": shard}, {"recipient": name, "data": "more"})
        assert (answer.status, answer.json()["accepted"]) == (201, 2)
        assert answer.headers["restante-correlation-id"]
        assert wire.get(f"/v1/recipients/{name}/peek").headers["restante-message-count"] == "2"
    assert ways == [True, True]


def test_what_is_for_two_shards_or_is_wrong_is_left_to_the_application(wire: Wire, ways: list[bool]) -> None:
    both = [{"recipient": names(shard, several=2)[0], "data": 1} for shard in range(2)]
    assert wire.publish(*both).json()["accepted"] == 2
    refused = wire.publish({"recipient": " ", "data": 1})
    assert (refused.status, refused.problem["code"]) == (400, "invalid_message")
    assert ways == [False, False]


def test_what_a_shard_refuses_is_told_as_by_the_other_way(wire: Wire, ways: list[bool]) -> None:
    name = names(0, several=2)[0]
    assert wire.publish({"recipient": name, "data": 1, "id": "known"}).status == 201
    again = wire.publish({"recipient": name, "data": 1, "id": "known"})
    assert (again.json()["accepted"], again.json()["duplicates"]) == (0, 1)
    refused = wire.publish({"recipient": name, "data": 2, "id": "known"})
    assert (refused.status, refused.problem["code"]) == (409, "message_conflict")
    assert [(fault["index"], fault["id"]) for fault in refused.problem["errors"]] == [(0, "known")]
    assert ways == [True, True, True]


def test_a_numbered_parcel_is_stored_once_however_often_it_comes(wire: Wire, ways: list[bool]) -> None:
    name = names(1, several=2)[0]
    partition = partition_of(name, 16)
    link = {"producer_group": 7, "owner_level": 1}
    assert wire("POST", f"/v1/partitions/{partition}/links", link).status in {200, 201}
    numbers = {"restante-producer-group": "7", "restante-owner-level": "1", "restante-published-sequence": "0"}
    body = {"messages": [{"recipient": name, "data": "numbered"}]}
    answers = [wire("POST", f"/v1/partitions/{partition}/parcels", body, headers=numbers) for _ in range(2)]
    assert [answer.status for answer in answers] == [201, 201]
    assert answers[1].json()["replayed"]
    assert answers[0].json()["partitions"] == answers[1].json()["partitions"]
    assert ways == [True, True]


def test_a_publish_to_a_shard_that_ends_is_repeated_until_it_is_there_again(
    several: SeveralHub, wire: Wire, ways: list[bool]
) -> None:
    name = names(0, 2, several=2)[1]
    several.stop_shard(0)
    answers: list[Any] = []
    sending = threading.Thread(target=lambda: answers.append(wire.publish({"recipient": name, "data": 1})))
    sending.start()
    time.sleep(0.2)
    several.start_shard(0)
    sending.join(120)
    assert [answer.status for answer in answers] == [201]
    assert len(ways) == 1
    assert wire.get(f"/v1/recipients/{name}/peek").headers["restante-message-count"] == "1"

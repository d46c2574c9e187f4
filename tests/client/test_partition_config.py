"""What a numbering producer is told at its creation, and a hub that opens a link without a state."""

from __future__ import annotations

from typing import Any

import pytest

from restante import ProducerClient, errors
from restante.client.producers.configuration import PartitionPublishingConfiguration, checked_configuration
from restante.model.publishing.message import Message
from tests.client.scripted import ScriptedServer, answer


def test_a_configuration_may_be_a_plain_dict() -> None:
    given = {
        "0": {"producer_group_id": 42, "owner_level": 1, "starting_sequence_number": 7},
        1: {},
        "2": {"owner_level": None},
    }
    assert checked_configuration(given, enabled=True) == {
        0: PartitionPublishingConfiguration(42, 1, 7),
        1: PartitionPublishingConfiguration(),
        2: PartitionPublishingConfiguration(),
    }


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"0": {"owner_levle": 1}},
            "'owner_levle': it may have producer_group_id, owner_level, starting_sequence_number",
        ),
        ({0: 7}, "or a dict, not int"),
        ({"zero": {}}, "A partition is a number from 0, not 'zero'"),
        ({0: {}, "0": {}}, "names partition 0 twice"),
        ({0: {"owner_level": -1}}, "owner level must be"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(given: Any, told: str) -> None:
    with pytest.raises(errors.InvalidRequest, match=told):
        checked_configuration(given, enabled=True)


def test_a_refused_link_is_an_invalid_client_state() -> None:
    assert issubclass(errors.LinkRefused, errors.InvalidClientState)
    assert errors.LinkRefused.code == "link_refused"


@pytest.mark.parametrize("body", [{}, {"partition": 0, "producer_group": None, "owner_level": 0}])
def test_a_link_without_a_state_is_told_at_once(body: object) -> None:
    with (
        ScriptedServer(answer(body, 201)) as server,
        ProducerClient(server.url, enable_idempotent_partitions=True) as producer,
    ):
        with pytest.raises(errors.InvalidClientState, match="without saying its producer_group"):
            producer.send_messages(Message(recipient="ada", data=1), partition=0)
        assert [seen.path for seen in server.seen] == ["/v1/partitions/0/links"]

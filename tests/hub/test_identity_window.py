"""How long a repeated id is recognised, if the operator says so."""

from __future__ import annotations

from pathlib import Path

import pytest

import restante
from restante.client.surface.surface import Hub
from restante.errors import MessageConflict
from restante.hub.doctor.doctor import examine
from restante.model.publishing.message import Message
from restante.settings import Settings
from restante.stores.sqlite import SqliteStore
from tests.hub.engines import FakeClock

HOUR = 3_600
SETTINGS = Settings(partition_count=2, housekeeping_seconds=0, filing=False, identity_retention_seconds=HOUR)


def message(data: object = 1, own_id: str = "one") -> Message:
    return Message(recipient="ada", id=own_id, data=data)


def opened(folder: Path, clock: FakeClock, settings: Settings = SETTINGS) -> Hub:
    return restante.open(folder, settings=settings, clock=clock)


def sent(hub: Hub, *messages: Message) -> tuple[int, int]:
    receipt = hub.producer.send(list(messages))
    return receipt.accepted, receipt.duplicates


def test_within_the_window_a_repetition_is_recognised_and_after_it_stored(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(tmp_path, clock) as hub:
        assert sent(hub, message()) == (1, 0)
        clock.advance(HOUR - 1)
        assert sent(hub, message()) == (0, 1)
        with pytest.raises(MessageConflict):
            sent(hub, message("other"))
        clock.advance(2)
        assert sent(hub, message("other")) == (1, 0)
        assert sent(hub, message("other")) == (0, 1)
        assert hub.recipient("ada").find("one").data == "other"


@pytest.mark.parametrize("filed", [False, True])
def test_the_window_holds_for_many_and_when_the_hub_was_opened_again(tmp_path: Path, *, filed: bool) -> None:
    clock = FakeClock()
    many = [message(number, f"n{number}") for number in range(300)]
    with opened(tmp_path, clock) as hub:
        assert sent(hub, *many) == (300, 0)
        if filed:
            hub.file()
    with opened(tmp_path, clock) as hub:
        assert sent(hub, *many) == (0, 300)
        clock.advance(HOUR + 1)
        assert sent(hub, *many[:100]) == (100, 0)
        assert sent(hub, *many[:100]) == (0, 100)
    store = SqliteStore.open(tmp_path)
    assert not examine(store).problems
    store.close()


def test_what_was_committed_by_a_consignment_is_as_old_as_its_commit(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(tmp_path, clock) as hub:
        with hub.consignment("night") as consignment:
            consignment.stage("writer", 0, [message()])
            clock.advance(HOUR + 1)
            consignment.commit()
        assert sent(hub, message()) == (0, 1)
        clock.advance(HOUR + 1)
        assert sent(hub, message()) == (1, 0)


def test_without_the_setting_an_id_is_recognised_as_long_as_its_message_is_kept(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(tmp_path, clock, Settings(partition_count=2, housekeeping_seconds=0)) as hub:
        assert sent(hub, message()) == (1, 0)
        clock.advance(1_000 * HOUR)
        assert sent(hub, message()) == (0, 1)

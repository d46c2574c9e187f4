"""Collecting by number: all up to it is dequeued, as by bundles, where the origin group says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event

import msgspec
import pytest

from restante.assembly import open_hub
from restante.calls.batches import ReadBatch, SealBatch
from restante.calls.mailboxes import Dequeue, Peek, ReadHistory
from restante.calls.publishing import Publish
from restante.calls.removal import FileNow, RetainNow, SetAside, Withdraw
from restante.errors import BundleOpen, InvalidRequest
from restante.hub.door.hub import OpenHub
from restante.model.batches.batch_answers import BatchState
from restante.model.mailboxes.answers import Reason
from restante.ports.content import Content, DequeuedNotice, OriginPort
from restante.settings import OriginGroupSettings, OriginSettings
from restante.stores.memory import MemoryStore
from tests.hub.bound_world import MemoryWorld, SqliteWorld, World, counted, opened, taken
from tests.hub.engines import FakeClock
from tests.hub.letters import RETENTION_SECONDS, SETTINGS, at, claim, id_of, letter, letters

LIVE = msgspec.structs.replace(
    SETTINGS,
    origins={"chat": OriginSettings(group="talk"), "calls": OriginSettings(group="talk")},
    origin_groups={"talk": OriginGroupSettings(live_collect=True)},
)
LAST = 2**63 - 1


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> Iterator[World]:
    made = MemoryWorld(LIVE, clock) if request.param == "memory" else SqliteWorld(LIVE, clock, tmp_path / "data")
    yield made
    report = made.examined()
    made.hub.close()
    assert report.sound, report.findings


@pytest.fixture
def hub(world: World) -> OpenHub:
    return world.hub


def states(hub: OpenHub, recipient: str = "ada") -> list[str]:
    """The states of a recipient's messages by sequence number, each by its first letter."""
    shown = hub.call(ReadHistory(recipient, limit=1_000)).messages
    return [message.state.value[0] for message in shown if message.state is not None]


def numbers(hub: OpenHub, recipient: str = "ada") -> list[int]:
    shown = hub.call(ReadHistory(recipient, limit=1_000)).messages
    return [message.sequence_number for message in shown if message.sequence_number is not None]


def test_all_up_to_the_number_is_collected_and_nothing_beyond(hub: OpenHub) -> None:
    hub.call(Publish.of(letters(range(6), origin="chat")))
    third = numbers(hub)[2]
    assert hub.live_collect("ada", third) == 3
    assert states(hub) == ["c", "c", "c", "w", "w", "w"]
    assert hub.live_collect("ada", third) == 0
    assert hub.live_collect("ada", LAST) == 3
    assert hub.call(Peek("ada")) is Reason.NOTHING_WAITING


def test_numbers_of_others_in_between_change_nothing(hub: OpenHub) -> None:
    for number in range(8):
        hub.call(Publish.of(letter(number, f"r{number % 4}", origin="chat")))
    assert hub.live_collect("r1", numbers(hub, "r1")[1]) == 2
    assert [states(hub, f"r{number}") for number in range(4)] == [["w", "w"], ["c", "c"], ["w", "w"], ["w", "w"]]


def test_all_cabinets_of_all_such_groups_are_collected_and_others_stay(hub: OpenHub) -> None:
    hub.call(
        Publish.of(
            [
                letter(1, origin="chat", kind="a"),
                letter(2, origin="calls", kind="a"),
                letter(3, origin="billing"),
                letter(4, origin="chat", kind="b"),
                letter(5, origin="chat", kind="a"),
                letter(6, origin="calls", kind="c"),
            ]
        )
    )
    assert hub.live_collect("ada", numbers(hub)[4]) == 4
    assert states(hub) == ["c", "c", "w", "c", "c", "w"]
    assert taken(hub, origins=["billing"]).message_count == 1


def test_what_may_not_share_a_bundle_is_collected_too(hub: OpenHub) -> None:
    hub.call(Publish.of([letter(number, origin="chat", bundleable=number % 2 == 0) for number in range(5)]))
    assert hub.live_collect("ada", numbers(hub)[3]) == 4
    assert states(hub) == ["c", "c", "c", "c", "w"]


def test_more_than_a_bundle_holds_is_collected(hub: OpenHub) -> None:
    hub.call(Publish.of(letters(range(4), origin="chat", weight=30_000)))
    assert hub.live_collect("ada", LAST) == 4
    assert states(hub) == ["c"] * 4


def test_expired_ones_are_passed_over(hub: OpenHub, clock: FakeClock) -> None:
    hub.call(Publish.of([letter(1, origin="chat", expires_at=at(5)), letter(2, origin="chat")]))
    hub.call(
        Publish.of([letter(3, origin="chat", expires_at=at(5)), letter(4, origin="chat", kind="b", expires_at=at(5))])
    )
    clock.advance(10)
    assert hub.live_collect("ada", LAST) == 1
    assert states(hub) == ["e", "c", "e", "e"]


def test_what_was_set_aside_or_withdrawn_stays_so(hub: OpenHub) -> None:
    hub.call(Publish.of(letters(range(3), origin="chat")))
    hub.call(SetAside("ada", id_of(0)))
    hub.call(Withdraw("ada", id_of(1)))
    assert hub.live_collect("ada", LAST) == 1
    assert states(hub) == ["s", "w", "c"]
    assert [message.state.value for message in hub.call(ReadHistory("ada")).messages if message.state][:2] == [
        "set_aside",
        "withdrawn",
    ]


def test_an_open_bundle_refuses_it_and_all_stays_as_it_is(hub: OpenHub) -> None:
    hub.call(Publish.of([letter(1, origin="chat"), letter(2, origin="chat"), letter(3, origin="calls")]))
    bundle = taken(hub, max_messages=1).bundle_id
    with pytest.raises(BundleOpen) as refused:
        hub.live_collect("ada", LAST)
    assert refused.value.details["bundle_id"] == bundle
    assert states(hub) == ["w", "w", "w"]
    assert taken(hub).bundle_id == bundle
    hub.call(Dequeue("ada", bundle))
    assert hub.live_collect("ada", LAST) == 2


def test_a_bundle_of_a_group_that_is_not_collected_so_is_in_nobodys_way(hub: OpenHub) -> None:
    hub.call(Publish.of([letter(1, origin="billing"), letter(2, origin="chat")]))
    bundle = taken(hub, origins=["billing"]).bundle_id
    assert hub.live_collect("ada", LAST) == 1
    assert hub.call(Dequeue("ada", bundle)).messages == 1


def test_a_recipient_without_such_groups_is_told_what_to_do(hub: OpenHub) -> None:
    hub.call(Publish.of(letter(1, origin="billing")))
    with pytest.raises(InvalidRequest, match="live_collect = true"):
        hub.live_collect("ada", LAST)
    assert states(hub) == ["w"]


def test_a_recipient_without_messages_has_nothing_to_collect(hub: OpenHub) -> None:
    assert hub.live_collect("nobody", LAST) == 0


def test_where_no_group_is_collected_so_everybody_is_told(clock: FakeClock) -> None:
    with (
        closing(open_hub(None, settings=SETTINGS, store=MemoryStore(), clock=clock)) as hub,
        pytest.raises(InvalidRequest, match="live_collect = true"),
    ):
        hub.live_collect("nobody", LAST)


@pytest.mark.parametrize("number", [-1, 2**63, 2**80])
def test_a_number_that_is_none_is_refused(hub: OpenHub, number: int) -> None:
    hub.call(Publish.of(letter(1, origin="chat")))
    with pytest.raises(InvalidRequest, match="sequence_number"):
        hub.live_collect("ada", number)
    assert states(hub) == ["w"]


def test_a_batch_counts_what_was_collected_so(hub: OpenHub) -> None:
    batch = opened(hub)
    hub.call(Publish.of([letter(number, origin="chat", kind=f"k{number % 2}") for number in range(4)], batch=batch))
    hub.call(SealBatch(batch))
    hub.live_collect("ada", numbers(hub)[2])
    assert counted(hub, batch) == {"items": 4, "pending": 1, "collected": 3}
    hub.live_collect("ada", LAST)
    assert hub.call(ReadBatch(batch)).state is BatchState.COMPLETE


def test_it_is_stored_and_known_after_the_hub_was_opened_again(world: World) -> None:
    world.hub.call(Publish.of(letters(range(4), origin="chat")))
    world.hub.live_collect("ada", numbers(world.hub)[1])
    hub = world.reopen()
    assert states(hub) == ["c", "c", "w", "w"]
    assert hub.live_collect("ada", numbers(hub)[1]) == 0
    hub.call(FileNow())
    assert hub.live_collect("ada", LAST) == 2


def test_history_forgets_it_as_other_messages(hub: OpenHub, clock: FakeClock) -> None:
    hub.call(Publish.of(letters(range(2), origin="chat")))
    hub.live_collect("ada", LAST)
    clock.advance(RETENTION_SECONDS + 1)
    assert hub.call(RetainNow()) == 2
    assert states(hub) == []


def test_claim_checks_are_collected_without_their_content_and_the_origin_is_told(clock: FakeClock) -> None:
    told: list[DequeuedNotice] = []
    heard = Event()

    def hear(notice: DequeuedNotice) -> None:
        told.append(notice)
        if sum(len(one.message_ids) for one in told) == 4:
            heard.set()

    def refuse(_request: object) -> Content:
        raise AssertionError("nobody needs the content")

    port = OriginPort(content=refuse, dequeued=hear)
    sent = [letter(1, origin="chat"), claim(2, origin="chat"), claim(3, origin="chat"), letter(4, origin="chat")]
    with closing(open_hub(None, settings=LIVE, store=MemoryStore(), clock=clock, origins={"chat": port})) as hub:
        hub.call(Publish.of(sent))
        assert hub.live_collect("ada", numbers(hub)[3]) == 4
        assert states(hub) == ["c"] * 4
        heard.wait()
    assert sorted(own for notice in told for own in notice.message_ids) == [id_of(number) for number in range(1, 5)]

"""Collecting: which bundle a peek answers, what is in it, what ends it, and what a dequeue makes of it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from restante import errors
from restante.client.surface.surface import Hub, Reason
from restante.model.publishing.message import State
from restante.settings import OriginGroupSettings, Settings
from tests.hub.conftest import HubOpener
from tests.hub.engines import FakeClock
from tests.hub.letters import (
    ALONE,
    SETTINGS,
    STRICT,
    at,
    history,
    id_of,
    letter,
    letters,
    not_for_the_reference,
    numbers_of,
    peeked,
    states,
    taken,
)

# Choosing.


def test_a_mailbox_without_messages_answers_nothing(hub: Hub) -> None:
    assert hub.recipient("nobody").peek() is None


def test_messages_come_in_the_order_of_their_arrival(hub: Hub) -> None:
    hub.producer.send(letters([5, 3, 9]))
    hub.producer.send(letters([1, 7]))
    assert taken(hub) == [5, 3, 9, 1, 7]


def test_one_bundle_comes_from_one_cabinet(hub: Hub) -> None:
    hub.producer.send([letter(1, kind="a"), letter(2, kind="b"), letter(3, kind="a"), letter(4, origin="other")])
    assert [taken(hub), taken(hub), taken(hub)] == [[1, 3], [2], [4]]
    assert hub.recipient("ada").peek() is None


def test_the_cabinet_with_the_smallest_waiting_number_comes_first(hub: Hub) -> None:
    hub.producer.send([letter(1, kind="b"), letter(2, kind="a"), letter(3, kind="b", bundleable=False)])
    assert [taken(hub), taken(hub), taken(hub)] == [[1], [2], [3]]


def test_only_the_requested_origins_are_looked_at(hub: Hub) -> None:
    hub.producer.send([letter(1, origin="charges"), letter(2, origin="series"), letter(3, origin="points")])
    assert numbers_of(peeked(hub, origins=["series"]).messages) == [2]
    assert hub.recipient("ada").peek(origins=["nobody"]) is None
    assert taken(hub, origins=["points", "nobody"]) == [3]


def test_an_origin_group_stands_for_its_origins(hub: Hub) -> None:
    hub.producer.send([letter(1, origin="series"), letter(2, origin="points"), letter(3, origin="charges")])
    assert taken(hub, origin_groups=["master"]) == [2]
    assert taken(hub, origin_groups=["master"]) == [3]
    assert hub.recipient("ada").peek(origin_groups=["master"]) is None
    assert taken(hub, origin_groups=["series"]) == [1]


def test_origins_and_origin_groups_are_taken_together(hub: Hub) -> None:
    hub.producer.send([letter(1, origin="series"), letter(2, origin="points")])
    assert taken(hub, origins=["series"], origin_groups=["master"]) == [1]
    assert taken(hub, origins=["series"], origin_groups=["master"]) == [2]


def test_an_origin_group_that_nobody_names_is_an_error(hub: Hub) -> None:
    hub.producer.send(letter(1, origin="series"))
    for look in (hub.recipient("ada").peek, hub.recipient("ada").explain):
        with pytest.raises(errors.InvalidRequest):
            look(origin_groups=["unheard-of"])


def test_a_group_may_be_named_by_the_settings_alone(open_hub: HubOpener) -> None:
    hub = open_hub(settings=Settings(origin_groups={"idle": OriginGroupSettings()}))
    assert hub.recipient("ada").peek(origin_groups=["idle"]) is None


# Repeating.


def test_peek_is_repeatable_until_dequeue(hub: Hub) -> None:
    hub.producer.send(letters([1, 2]))
    first = peeked(hub)
    hub.producer.send(letters([3]))
    again = peeked(hub, max_messages=1, max_weight=1)
    assert (again.bundle_id, numbers_of(again.messages)) == (first.bundle_id, [1, 2])
    first.dequeue()
    assert taken(hub) == [3]


def test_an_open_bundle_outlives_the_hub(open_hub: HubOpener) -> None:
    hub = open_hub()
    hub.producer.send(letters([1, 2]))
    bundle_id = peeked(hub, max_messages=1).bundle_id
    hub = open_hub()
    assert (peeked(hub).bundle_id, numbers_of(peeked(hub).messages)) == (bundle_id, [1])


def test_a_bundle_says_what_it_is(hub: Hub) -> None:
    hub.producer.send(
        [
            letter(1, origin="series", kind="a", document_type="One"),
            letter(2, origin="series", kind="a", document_type="Two"),
            letter(3, origin="series", kind="a", document_type="One"),
        ]
    )
    bundle = peeked(hub)
    assert (bundle.recipient, bundle.origin, bundle.kind, bundle.message_count) == ("ada", "series", "a", 3)
    assert bundle.document_types == ("One", "Two")
    assert bundle.content is None
    assert str(UUID(bundle.bundle_id)) == bundle.bundle_id


def test_a_bundle_comes_as_columns_and_as_values(hub: Hub) -> None:
    hub.producer.send([letter(1, properties={"a": "b"}), letter(2, data={"json": True}), letter(3, data=b"")])
    bundle = peeked(hub)
    assert [message.data for message in bundle.messages] == [b"letter 1", {"json": True}, b""]
    assert bundle.table["data"].to_pylist() == [b"letter 1", b'{"json":true}', b""]
    assert bundle.table["sequence_number"].to_pylist() == [each.sequence_number for each in bundle.messages]
    assert bundle.messages[0].properties == {"a": "b"}
    assert bundle.messages[0].published_at == at(0)


def test_one_open_bundle_per_recipient_and_origin_group(hub: Hub) -> None:
    hub.producer.send([letter(1, origin="charges"), letter(2, origin="points"), letter(3, origin="series")])
    held = peeked(hub, origins=["charges"])
    assert hub.recipient("ada").peek(origins=["points"]) is None
    assert numbers_of(peeked(hub, origins=["series"]).messages) == [3]
    held.dequeue()
    assert numbers_of(peeked(hub, origins=["points"]).messages) == [2]


def test_of_several_open_bundles_the_one_with_the_smallest_number_is_answered(hub: Hub) -> None:
    hub.producer.send([letter(1, origin="series"), letter(2, origin="points"), letter(3, origin="other")])
    for origin in ("points", "series"):
        peeked(hub, origins=[origin])
    assert numbers_of(peeked(hub).messages) == [1]
    assert numbers_of(peeked(hub, origins=["points", "other"]).messages) == [2]


def test_other_recipients_are_not_held_up_by_an_open_bundle(hub: Hub) -> None:
    hub.producer.send([letter(1, "ada"), letter(1, "dora")])
    peeked(hub, "ada")
    assert taken(hub, "dora") == [1]


# Proposed bundle ids.


def test_a_proposed_bundle_id_is_taken_and_repeated(hub: Hub) -> None:
    hub.producer.send(letter(1))
    text = "ABCDEF00-0000-4000-8000-00000000000A"
    assert peeked(hub, bundle_id=text).bundle_id == text.lower()
    assert peeked(hub, bundle_id=text).bundle_id == text.lower()
    assert peeked(hub).bundle_id == text.lower()


def test_another_id_while_a_bundle_is_open_names_the_open_one(hub: Hub) -> None:
    hub.producer.send(letter(1))
    peeked(hub, bundle_id=id_of(100))
    with pytest.raises(errors.BundleOpen) as caught:
        hub.recipient("ada").peek(bundle_id=id_of(101))
    assert caught.value.details["bundle_id"] == id_of(100)


def test_an_id_used_before_is_an_error_even_when_nothing_waits(hub: Hub) -> None:
    hub.producer.send(letter(1))
    peeked(hub, bundle_id=id_of(100)).dequeue()
    for _ in range(2):
        with pytest.raises(errors.BundleIdUsed):
            hub.recipient("ada").peek(bundle_id=id_of(100))
        hub.producer.send(letter(2))


def test_the_id_of_a_bundle_open_in_another_group_is_used(hub: Hub) -> None:
    hub.producer.send([letter(1, origin="series"), letter(2, origin="points")])
    peeked(hub, origins=["series"], bundle_id=id_of(100))
    with pytest.raises(errors.BundleIdUsed):
        hub.recipient("ada").peek(origins=["points"], bundle_id=id_of(100))


def test_another_recipients_bundle_id_may_be_used(hub: Hub) -> None:
    hub.producer.send([letter(1, "ada"), letter(2, "dora")])
    assert peeked(hub, "ada", bundle_id=id_of(100)).bundle_id == peeked(hub, "dora", bundle_id=id_of(100)).bundle_id
    hub.recipient("ada").dequeue(id_of(100))
    assert states(hub, "dora") == [State.WAITING]


@pytest.mark.parametrize("options", [{"bundle_id": "seventeen"}, {"max_messages": 0}, {"max_weight": 0}])
def test_a_peek_that_makes_no_sense_is_refused(hub: Hub, options: dict[str, Any]) -> None:
    hub.producer.send(letter(1))
    with pytest.raises(errors.InvalidRequest):
        peeked(hub, **options)
    assert hub.recipient("ada").explain().open_bundles == ()


# Bundling.


def test_the_first_message_is_taken_whatever_its_weight(hub: Hub) -> None:
    hub.producer.send([letter(1, weight=60_000), letter(2)])
    assert [taken(hub), taken(hub)] == [[1], [2]]


def test_a_bundle_holds_exactly_the_limit_of_weight(hub: Hub) -> None:
    hub.producer.send([letter(1, weight=20_000), letter(2, weight=31_200), letter(3, weight=1)])
    assert [taken(hub), taken(hub)] == [[1, 2], [3]]


def test_what_does_not_fit_ends_the_bundle_even_if_the_next_would(hub: Hub) -> None:
    hub.producer.send([letter(1, weight=31_200), letter(2, weight=20_001), letter(3, weight=1)])
    assert [taken(hub), taken(hub)] == [[1], [2, 3]]


def test_a_message_that_is_not_bundleable_comes_alone(hub: Hub) -> None:
    hub.producer.send([letter(1), letter(2, bundleable=False), letter(3), letter(4)])
    assert [taken(hub), taken(hub), taken(hub)] == [[1], [2], [3, 4]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"max_messages": 2}, [1, 2]),
        ({"max_weight": 20}, [1, 2]),
        ({"max_weight": 29}, [1, 2]),
        ({"max_weight": 30}, [1, 2, 3]),
        ({"max_weight": 1}, [1]),
        ({"max_messages": 2, "max_weight": 10}, [1]),
        ({"max_messages": 100}, [1, 2, 3]),
    ],
)
def test_a_caller_may_ask_for_less(hub: Hub, options: dict[str, Any], expected: list[int]) -> None:
    hub.producer.send(letters([1, 2, 3], weight=10))
    assert taken(hub, **options) == expected


def test_asking_for_more_than_the_limit_gives_the_limit(hub: Hub) -> None:
    hub.producer.send(letters([1, 2], weight=31_200))
    assert taken(hub, max_weight=1_000_000) == [1]


def test_a_bundle_goes_on_over_many_sends_and_drawers(hub: Hub) -> None:
    not_for_the_reference(hub, "it is slow")
    count = 12_000
    for start in range(0, count, 1_000):
        hub.producer.send(letters(range(start, start + 1_000)))
    assert taken(hub) == list(range(count))


# Strict order.


def test_strict_order_ends_a_bundle_before_the_next_message_of_another_cabinet(open_hub: HubOpener) -> None:
    hub = open_hub(settings=STRICT)
    hub.producer.send(
        [
            letter(1, origin="charges"),
            letter(2, origin="charges"),
            letter(3, origin="points"),
            letter(4, origin="charges"),
            letter(5, origin="charges", kind="b"),
        ]
    )
    assert [taken(hub) for _ in range(4)] == [[1, 2], [3], [4], [5]]


def test_strict_order_looks_at_its_own_group_only(open_hub: HubOpener) -> None:
    hub = open_hub(settings=STRICT)
    hub.producer.send([letter(1, origin="charges"), letter(2, origin="series"), letter(3, origin="charges")])
    assert taken(hub) == [1, 3]


def test_strict_order_passes_over_what_no_longer_waits(open_hub: HubOpener, clock: FakeClock) -> None:
    hub = open_hub(settings=STRICT)
    hub.producer.send(
        [
            letter(1, origin="charges"),
            letter(2, origin="points", expires_at=at(5)),
            letter(3, origin="points"),
            letter(4, origin="charges"),
        ]
    )
    hub.recipient("ada").withdraw(id_of(3))
    clock.advance(6)
    assert taken(hub) == [1, 4]


def test_strict_order_holds_when_a_later_origin_is_asked_for_first(open_hub: HubOpener) -> None:
    hub = open_hub(settings=STRICT)
    hub.producer.send(
        [
            letter(1, origin="points"),
            letter(2, origin="charges"),
            letter(3, origin="charges"),
            letter(4, origin="points"),
            letter(5, origin="charges"),
        ]
    )
    assert taken(hub, origins=["charges"]) == [2, 3]


# Dequeue.


def test_a_dequeue_tells_how_many_messages_were_collected_and_when(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send(letters([1, 2, 3]))
    bundle = peeked(hub, max_messages=2)
    clock.advance(5)
    answer = bundle.dequeue()
    assert (answer.bundle_id, answer.messages) == (bundle.bundle_id, 2)
    messages = hub.recipient("ada").history().messages
    assert [message.collected_at for message in messages] == [at(5), at(5), None]
    assert states(hub) == [State.COLLECTED, State.COLLECTED, State.WAITING]


def test_a_repeated_dequeue_says_that_it_was_done_and_when(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send(letter(1))
    bundle = peeked(hub)
    clock.advance(5)
    bundle.dequeue()
    clock.advance(5)
    with pytest.raises(errors.BundleUnknown) as caught:
        bundle.dequeue()
    assert caught.value.details["dequeued_at"] == at(5)


def test_any_open_bundle_may_be_dequeued_not_only_the_oldest(hub: Hub) -> None:
    hub.producer.send([letter(1, origin="series"), letter(2, origin="points")])
    peeked(hub, origins=["series"])
    peeked(hub, origins=["points"]).dequeue()
    assert history(hub) == [(1, State.WAITING), (2, State.COLLECTED)]


def test_unknown_bundles_and_those_of_others_are_unknown(hub: Hub) -> None:
    hub.producer.send([letter(1, "ada"), letter(2, "dora")])
    others = peeked(hub, "dora").bundle_id
    for bundle_id in (others, id_of(100)):
        with pytest.raises(errors.BundleUnknown) as caught:
            hub.recipient("ada").dequeue(bundle_id)
        assert caught.value.details.get("dequeued_at") is None
    assert states(hub, "dora") == [State.WAITING]


def test_a_malformed_bundle_id_is_an_invalid_request(hub: Hub) -> None:
    with pytest.raises(errors.InvalidRequest):
        hub.recipient("ada").dequeue("seventeen")


# Explain.


def test_explain_says_that_a_recipient_is_unknown(hub: Hub) -> None:
    assert hub.recipient("nobody").explain().reason is Reason.RECIPIENT_UNKNOWN


def test_explain_says_what_waits(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(1, origin="series", kind="a"), letter(2, origin="points", kind="b")])
    clock.advance(5)
    hub.producer.send(letter(3, origin="series", kind="a"))
    explanation = hub.recipient("ada").explain()
    waiting = [(one.origin, one.kind, one.messages, one.oldest) for one in explanation.waiting]
    assert explanation.reason is Reason.READY
    assert waiting == [("series", "a", 2, at(0)), ("points", "b", 1, at(0))]


def test_explain_names_the_open_bundles(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send(letters([1, 2], origin="points"))
    clock.advance(5)
    bundle = peeked(hub)
    (held,) = hub.recipient("ada").explain().open_bundles
    assert (held.bundle_id, held.origin, held.origin_group) == (bundle.bundle_id, "points", "master")
    assert (held.messages, held.opened_at) == (2, at(5))
    assert hub.recipient("ada").explain().reason is Reason.READY


def test_explain_says_that_a_bundle_of_the_group_is_open(hub: Hub) -> None:
    hub.producer.send([letter(1, origin="charges"), letter(2, origin="points")])
    peeked(hub, origins=["charges"])
    assert hub.recipient("ada").explain(origins=["points"]).reason is Reason.BUNDLE_OPEN_IN_GROUP
    assert hub.recipient("ada").explain().reason is Reason.READY


def test_explain_says_that_nothing_waits(hub: Hub, clock: FakeClock) -> None:
    hub.producer.send([letter(1), letter(2, kind="b"), letter(3, kind="c", expires_at=at(5)), letter(4, kind="d")])
    taken(hub)
    hub.recipient("ada").withdraw(id_of(2))
    hub.recipient("ada").set_aside(id_of(4))
    clock.advance(6)
    explanation = hub.recipient("ada").explain()
    assert (explanation.reason, explanation.waiting) == (Reason.NOTHING_WAITING, ())


def test_explaining_changes_nothing(hub: Hub) -> None:
    hub.producer.send(letter(1))
    hub.recipient("ada").explain()
    assert hub.recipient("ada").explain().open_bundles == ()


# Regrouping.


def test_groups_follow_the_settings_with_which_the_hub_is_opened(open_hub: HubOpener) -> None:
    hub = open_hub(settings=ALONE)
    hub.producer.send([letter(1, origin="charges"), letter(2, origin="points")])
    peeked(hub, origins=["charges"])
    hub = open_hub(settings=SETTINGS)
    assert hub.recipient("ada").peek(origins=["points"]) is None
    hub = open_hub(settings=ALONE)
    assert numbers_of(peeked(hub, origins=["points"]).messages) == [2]

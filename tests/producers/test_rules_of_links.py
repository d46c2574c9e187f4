"""Numbered publishing, rule by rule: what a link may offer, and what it answers."""

from __future__ import annotations

import pytest

from restante.errors import LinkRefused, ProducerDisconnected, ProducerUnknown
from tests.hub.letters import letter, letters
from tests.producers.desk import GROUP, LAST, Desk, replays

GROUP_MAX = 2**63 - 1


def test_a_link_without_a_group_is_given_a_new_one(desk: Desk) -> None:
    links = [desk.open_link() for _ in range(3)]
    groups = {link.producer_group for link in links}
    assert len(groups) == 3
    assert all(0 <= group <= GROUP_MAX for group in groups)
    for link in links:
        assert (link.partition, link.owner_level, link.last_published_sequence_number) == (desk.partition, 0, None)
        assert desk.publish(0, letter(link.producer_group), group=link.producer_group).accepted == 1


def test_a_link_without_a_group_may_have_a_level_but_no_number(desk: Desk) -> None:
    assert desk.open_link(owner_level=3).owner_level == 3
    with pytest.raises(LinkRefused) as caught:
        desk.open_link(last_published_sequence_number=3)
    assert caught.value.details["expected"] is None


def test_an_unknown_group_may_be_linked_without_a_number_only(desk: Desk) -> None:
    with pytest.raises(LinkRefused) as caught:
        desk.open_link(producer_group=GROUP, owner_level=2, last_published_sequence_number=5)
    assert caught.value.details["expected"] is None
    with pytest.raises(ProducerUnknown):
        desk.state()
    linked = desk.open_link(producer_group=GROUP, owner_level=2)
    assert (linked.producer_group, linked.owner_level, linked.last_published_sequence_number) == (GROUP, 2, None)
    desk.refuses_number(1, letter(0), level=2, expected=0)
    assert desk.publish(0, letter(0), level=2).accepted == 1


def test_a_link_reads_the_true_last_number(desk: Desk) -> None:
    desk.publish(0, letters(range(3)), level=2)
    for offered in ({}, {"owner_level": 2}, {"owner_level": 2, "last_published_sequence_number": 2}):
        linked = desk.open_link(producer_group=GROUP, **offered)
        assert (linked.owner_level, linked.last_published_sequence_number) == (2, 2)
    assert desk.publish(3, letter(3), level=2).accepted == 1


def test_another_number_at_the_same_level_is_refused_with_the_true_one(desk: Desk) -> None:
    desk.publish(0, letters(range(3)), level=2)
    before = desk.state()
    for level in (None, 2):
        for offered in (0, 1, 3, LAST):
            with pytest.raises(LinkRefused) as caught:
                desk.open_link(producer_group=GROUP, owner_level=level, last_published_sequence_number=offered)
            assert caught.value.details["expected"] == 2
    assert desk.state() == before


def test_a_number_for_a_group_that_has_published_nothing_is_refused(desk: Desk) -> None:
    desk.open_link(producer_group=GROUP)
    with pytest.raises(LinkRefused) as caught:
        desk.open_link(producer_group=GROUP, last_published_sequence_number=0)
    assert caught.value.details["expected"] is None


def test_a_link_below_the_current_level_is_disconnected(desk: Desk) -> None:
    desk.publish(0, letters(range(3)), level=2)
    for offered in (None, 2, 77):
        with pytest.raises(ProducerDisconnected) as caught:
            desk.open_link(producer_group=GROUP, owner_level=1, last_published_sequence_number=offered)
        assert (caught.value.details["received"], caught.value.details["current"]) == (1, 2)
    assert desk.level_and_last() == (2, 2)


def test_a_raised_level_may_offer_any_number_and_goes_on_after_it(desk: Desk) -> None:
    desk.publish(0, letters(range(3)))
    for level, offered in enumerate((0, 2, 77, LAST - 1, LAST), 1):
        linked = desk.open_link(producer_group=GROUP, owner_level=level, last_published_sequence_number=offered)
        assert (linked.owner_level, linked.last_published_sequence_number) == (level, offered)
        expected = (offered + 1) % 2**31
        desk.refuses_number((offered + 2) % 2**31, letter(9), level=level, expected=expected)
        assert desk.publish(expected, letter(100 + level), level=level).accepted == 1


def test_a_raised_level_without_a_number_starts_at_0(desk: Desk) -> None:
    desk.publish(0, letters(range(3)))
    assert desk.open_link(producer_group=GROUP, owner_level=1).last_published_sequence_number is None
    desk.refuses_number(3, letter(3), level=1, expected=0)
    assert desk.publish(0, letter(3), level=1).accepted == 1


def test_a_link_fences_lower_levels_at_once(desk: Desk) -> None:
    desk.publish(0, letters(range(3)))
    desk.open_link(producer_group=GROUP, owner_level=1)
    assert desk.refuses(ProducerDisconnected, 3, letter(3))["current"] == 1
    desk.reopen()
    assert desk.refuses(ProducerDisconnected, 3, letter(3))["current"] == 1


def test_a_link_at_the_same_level_keeps_the_last_range(desk: Desk) -> None:
    receipt = desk.publish(0, letters(range(3)))
    desk.open_link(producer_group=GROUP)
    assert desk.publish(0, letters(range(3))) == replays(receipt)

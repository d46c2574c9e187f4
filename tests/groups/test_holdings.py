"""What a member has: pages in order, checkpoints that are due, partitions that are given up or lost."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from restante.client.groups.holdings import DueCheckpoint, Holdings, Question, TakenPage
from restante.model.feed.feed import FEED_SCHEMA
from restante.model.groups.group_answers import Assigned, NextPage


def given(partition: int, generation: int = 1, position: int = 0) -> Assigned:
    return Assigned(partition=partition, generation=generation, position=position)


def page(partition: int, upto: int, *, generation: int = 1, rows: int = 1) -> NextPage:
    table = pa.table({"sequence_number": list(range(rows))}) if rows else FEED_SCHEMA.empty_table()
    return NextPage(partition=partition, generation=generation, next=upto, end=100, table=table)


def taken(holdings: Holdings) -> TakenPage:
    found = holdings.take()
    assert found is not None
    return found


def read(holdings: Holdings, *pages: NextPage) -> None:
    """All that is asked for is answered with these pages, some at a time."""
    for each in pages:
        question = next(own for own in _questions(holdings) if each.partition in {h.partition for h in own.holdings})
        holdings.took(question, [each])


def _questions(holdings: Holdings) -> Iterator[Question]:
    """All questions there are; those that were not answered are called off."""
    asked = []
    while (question := holdings.ask(10)) is not None:
        asked.append(question)
    for question in asked:
        holdings.unasked(question)
    yield from asked


def due(holdings: Holdings, *, skims: bool = True) -> tuple[int, int, int, bool] | None:
    found = holdings.due(skims=skims)
    return None if found is None else (found.holding.partition, found.holding.generation, found.position, found.release)


def test_pages_of_a_partition_are_handed_out_one_at_a_time_in_order() -> None:
    holdings = Holdings()
    assert holdings.assign([given(0), given(1)])
    assert not holdings.assign([given(0), given(1)])
    read(holdings, page(0, 5), page(1, 7), page(0, 9))
    assert holdings.rows_unread == 3
    first, second = taken(holdings), taken(holdings)
    assert [(own.holding.partition, own.position) for own in (first, second)] == [(0, 5), (1, 7)]
    assert holdings.take() is None, "a page of each partition is under way"
    holdings.done(first)
    assert due(holdings) == (0, 1, 5, False)
    assert taken(holdings).position == 9


def test_who_was_served_last_is_asked_for_last() -> None:
    holdings = Holdings()
    holdings.assign([given(0), given(1), given(2)])
    read(holdings, page(0, 5))
    holdings.done(taken(holdings))
    asked = [holdings.ask(10) for _ in range(3)]
    assert [own.after[0].partition for own in asked if own is not None] == [1, 2, 0]
    assert asked[2] is not None
    assert asked[2].after[0].position == 5
    assert holdings.ask(10) is None, "nobody asks twice"


def test_those_that_are_not_behind_are_waited_at_together() -> None:
    holdings = Holdings()
    holdings.assign([given(0), given(1), given(2)])
    for _ in range(3):
        question = holdings.ask(10)
        assert question is not None
        assert (question.waits, question.whole) == (False, False)
        holdings.took(question, [])
    question = holdings.ask(2)
    assert question is not None
    assert ([own.partition for own in question.after], question.waits, question.whole) == ([0, 1], True, False)
    holdings.unasked(question)
    question = holdings.ask(10)
    assert question is not None
    assert question.whole


def test_a_page_that_is_left_is_not_done_with() -> None:
    holdings = Holdings()
    holdings.assign([given(0)])
    read(holdings, page(0, 5))
    holdings.undone(taken(holdings))
    assert due(holdings) is None


def test_what_the_filter_leaves_out_is_passed_and_written_now_and_then() -> None:
    holdings = Holdings()
    holdings.assign([given(0)])
    read(holdings, page(0, 5, rows=0))
    assert due(holdings, skims=False) is None
    found = holdings.due()
    assert found is not None
    assert found.position == 5
    holdings.wrote(found)
    assert due(holdings) is None
    read(holdings, page(0, 9), page(0, 12, rows=0))
    assert due(holdings) is None, "a page is not done with"
    holdings.done(taken(holdings))
    assert due(holdings, skims=False) == (0, 1, 12, False)


def test_a_partition_that_is_missing_is_given_up_when_its_page_is_done_with() -> None:
    holdings = Holdings()
    holdings.assign([given(0), given(1)])
    read(holdings, page(0, 5), page(0, 9))
    under_way = taken(holdings)
    assert holdings.assign([given(1)])
    assert due(holdings) is None
    assert holdings.rows_unread == 0, "what nobody has begun is not begun"
    holdings.done(under_way)
    assert due(holdings) == (0, 1, 5, True)
    found = holdings.due()
    assert found is not None
    holdings.wrote(found)
    assert due(holdings) is None


def test_a_generation_that_is_over_does_not_begin_again() -> None:
    holdings = Holdings()
    holdings.assign([given(0)])
    holdings.assign([])
    assert not holdings.assign([given(0)])
    assert holdings.ask(10) is None
    assert holdings.assign([given(0, generation=2, position=3)])
    question = holdings.ask(10)
    assert question is not None
    assert question.after[0].position == 3


def test_what_was_released_and_is_the_members_all_the_same_goes_on() -> None:
    """The hub was opened again since it asked for the partition, and leaves it where it is."""
    holdings = Holdings()
    holdings.assign([given(0)])
    holdings.assign([])
    found = holdings.due()
    assert found is not None
    holdings.wrote(found)
    assert holdings.ask(10) is None, "it is not the member's until the hub says so"
    assert holdings.assign([given(0)])
    assert not holdings.assign([given(0)]), "it begins once"
    read(holdings, page(0, 5))
    holdings.done(taken(holdings))
    assert due(holdings) == (0, 1, 5, False)


def test_a_release_of_an_older_generation_brings_nothing_back() -> None:
    holdings = Holdings()
    holdings.assign([given(0)])
    read(holdings, page(0, 5))
    under_way = taken(holdings)
    holdings.assign([])
    holdings.assign([given(0, generation=2)])
    holdings.done(under_way)
    found = holdings.due()
    assert found is not None
    assert (found.release, found.holding.generation) == (True, 1)
    holdings.wrote(found)
    assert not holdings.assign([given(0)])
    (question,) = _questions(holdings)
    assert [own.generation for own in question.after] == [2]


def test_a_new_generation_waits_for_the_page_of_the_old_one() -> None:
    holdings = Holdings()
    holdings.assign([given(0)])
    read(holdings, page(0, 5))
    old = taken(holdings)
    late = holdings.ask(10)
    assert late is not None
    holdings.assign([given(0, generation=2)])
    holdings.took(late, [page(0, 9)])
    read(holdings, page(0, 5, generation=2))
    assert holdings.take() is None
    holdings.done(old)
    assert taken(holdings).holding.generation == 2


def test_what_the_hub_calls_stale_is_dropped_unless_it_is_known_already() -> None:
    holdings = Holdings()
    holdings.assign([given(0), given(1, generation=4)])
    holdings.drop_stale({0: 2, 1: 4, 2: 9})
    assert holdings.partitions() == {1}
    read(holdings, page(1, 5, generation=4))
    holdings.done(taken(holdings))
    found = holdings.due()
    assert found is not None
    holdings.forget(found)
    assert holdings.partitions() == frozenset()
    assert due(holdings) is None


def test_who_is_no_member_any_more_writes_nothing() -> None:
    holdings = Holdings()
    holdings.assign([given(0), given(1)])
    read(holdings, page(0, 5))
    under_way = taken(holdings)
    holdings.assign([given(1)])
    holdings.drop_all()
    holdings.done(under_way)
    assert due(holdings) is None
    holdings.wrote(DueCheckpoint(under_way.holding, 5, release=True))

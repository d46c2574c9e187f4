"""The next pages of a member: from several of its partitions, in one answer and with one wait.

Nothing up to a checkpoint is handed out, whatever the member asks for, and nothing from a partition that it was told to give
up. Members are not paced like other feed readers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import msgspec

from restante import limits
from restante.calls.groups import ReadNext
from restante.errors import InvalidRequest, PositionAhead, PositionGone
from restante.hub.engine.commit_request import closed
from restante.hub.engine.core import Core
from restante.hub.feed.feed import read_feed
from restante.hub.groups.action_pages import handed_out
from restante.hub.groups.few_pages import look_few
from restante.hub.groups.group_rows import group_bell
from restante.hub.groups.group_starts import starts_of
from restante.hub.groups.members import known_member, member_id_of, state_running
from restante.hub.groups.memory import GroupMemory, KnownGroup
from restante.hub.publishing.publish import check_partition
from restante.model.access.access import Grant
from restante.model.feed.feed_answers import FeedAnswer
from restante.model.groups.group import Gone
from restante.model.groups.group_answers import NextAnswer, NextPage, ReadAfter
from restante.model.groups.group_names import check_group
from restante.model.mailboxes.answers import moment


def read_next(core: Core, call: ReadNext, _: Grant) -> NextAnswer:
    check_next(core, call)
    state_running(core, call)
    if call.wait > 0:
        return _follow(core, call, min(call.wait, limits.WAIT_SECONDS_MAX))
    return _look(core, call)


def _look(core: Core, call: ReadNext) -> NextAnswer:
    found = look_few(core, call) if call.few else None
    return look_next(core, call) if found is None else found


def check_next(core: Core, call: ReadNext) -> None:
    check_group(call.group)
    member_id_of(call.member_id)
    if len(call.after) > limits.GROUP_PARTITIONS_AT_ONCE_MAX:
        most = limits.GROUP_PARTITIONS_AT_ONCE_MAX
        raise InvalidRequest(
            f"after names at most {most} partitions; ask for the others after that.", parameter="after"
        )
    for each in call.after:
        check_partition(core, each.partition)
        if not 0 <= each.position < 2**63:
            text = f"A position is a sequence number, 0 or more, not {each.position}."
            raise InvalidRequest(text, parameter="after")
    if len({each.partition for each in call.after}) != len(call.after):
        raise InvalidRequest("after names a partition twice.", parameter="after")
    if call.limit is not None and call.limit < 1:
        raise InvalidRequest(f"limit must be at least 1, not {call.limit}.", parameter="limit")


def _follow(core: Core, call: ReadNext, seconds: float) -> NextAnswer:
    deadline, rung = time.monotonic() + seconds, threading.Event()
    with listening(core, call, rung.set):
        while True:
            rung.clear()
            found = _look(core, call)
            left = deadline - time.monotonic()
            if not nothing_to_do(found) or left <= 0 or not rung.wait(left):
                return found
            call = read_on(call, found)


@contextmanager
def listening(core: Core, call: ReadNext, ring: Callable[[], None]) -> Iterator[None]:
    """Within this context, call `ring` after each commit in one of the partitions or about the group."""
    with ExitStack() as stack:
        stack.enter_context(core.bell.listening(group_bell(call.group), ring))
        for each in call.after:
            stack.enter_context(core.bell.listening_to_partition(each.partition, ring))
        yield


def nothing_to_do(found: NextAnswer) -> bool:
    """Whether an answer has no changes, and its pages reach the ends of their partitions."""
    return not any(page.changes for page in found.few) and all(
        not page.table.num_rows and page.next >= page.end for page in found.pages
    )


def read_on(call: ReadNext, found: NextAnswer) -> ReadNext:
    """The same request, starting after the changes that were read in vain."""
    looked = {page.partition: page.next for page in found.pages} | {page.partition: page.next for page in found.few}
    after = [msgspec.structs.replace(own, position=looked.get(own.partition, own.position)) for own in call.after]
    return msgspec.structs.replace(call, after=tuple(after))


def look_next(core: Core, call: ReadNext) -> NextAnswer:
    """Read the current pages. The caller has checked the call."""
    if core.closing.is_set():
        raise closed()
    known = known_member(core, call.group, member_id_of(call.member_id))
    told = core.memory(GroupMemory).told_in(call.group)
    starts = starts_of(known, member_id_of(call.member_id), call.after)
    pages: list[NextPage] = []
    changes = limits.FEED_CHANGES_DEFAULT if call.limit is None else min(call.limit, limits.FEED_CHANGES_MAX)
    size = 0
    for each, start in zip(call.after, starts, strict=True):
        if known.row.paused or changes <= 0 or size >= limits.FEED_BYTES_MAX:
            break
        if each.partition in told or start == core.partitions[each.partition].counters.visible:
            continue
        page = _page(core, known, each, start, changes)
        pages.append(page)
        changes -= page.table.num_rows
        size += page.table.nbytes
    return NextAnswer(pages=tuple(pages), now=moment(core.clock()))


def _page(core: Core, known: KnownGroup, each: ReadAfter, start: int, limit: int) -> NextPage:
    skimmed = known.skimmed  # A change of the filter replaces this list, so a note for the old filter is lost.
    found = _read(core, known, each.partition, start, limit)
    table = found.table
    if known.row.is_of_actions:
        table = handed_out(core, known.row.name, each.partition, each.generation, table)
    if not table.num_rows and start <= known.passed(each.partition):
        skimmed[each.partition] = (each.generation, found.next)
    return NextPage(partition=each.partition, generation=each.generation, next=found.next, end=found.end, table=table)


def _read(core: Core, known: KnownGroup, partition: int, start: int, limit: int) -> FeedAnswer:
    wish, only = known.row.wish, known.row.is_of_actions
    try:
        return read_feed(core, partition, start, wish, limit, only_messages=only)
    except PositionGone as error:
        known.overtaken += 1
        if known.row.filter.gone is Gone.SKIP:
            return read_feed(core, partition, None, wish, limit, only_messages=only)
        raise PositionGone(
            f"{error.message} The group {known.row.name!r} has not read what is gone; an operator decides where it goes on: "
            f"POST /v1/groups/{known.row.name}/positions/{partition}/reset.",
            partition=partition,
            **error.details,
        ) from error
    except PositionAhead as error:
        raise PositionAhead(error.message, partition=partition, **error.details) from error

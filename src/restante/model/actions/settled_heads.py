"""The head of a cabinet after one of its actions was settled.

Actions of one thing end mostly in order, and then the head just moves on. One that ends before an earlier one, of another
group say, is listed apart until the head passes it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from restante.model.storage.change import ChangeKind
from restante.model.storage.head import Apart, Head, NumberRange, advanced, with_apart

_APART = {
    ChangeKind.EXPIRED: Apart.EXPIRED,
    ChangeKind.WITHDRAWN: Apart.WITHDRAWN,
    ChangeKind.SET_ASIDE: Apart.SET_ASIDE,
}


def apart_why(head: Head, number: int) -> Apart | None:
    """Why a number is apart, if it is."""
    return next((entry.why for entry in head.apart if entry.first <= number <= entry.last), None)


def is_open(head: Head, number: int) -> bool:
    """Whether a message waits, as far as its head shows."""
    return number > head.head and apart_why(head, number) is None


def can_settle(head: Head, number: int) -> bool:
    """Whether a message waits, or is set aside: what else became of it stays."""
    why = apart_why(head, number)
    return why is Apart.SET_ASIDE or (why is None and number > head.head)


def gaps_before(head: Head, number: int) -> Iterator[NumberRange]:
    """The stretches between the head and a number that have no entry in `head.apart`: messages in them wait."""
    first = head.head + 1
    for entry in head.apart:
        if entry.last < first:
            continue
        if entry.first >= number:
            break
        if entry.first > first:
            yield NumberRange(first, entry.first - 1)
        first = entry.last + 1
    if first < number:
        yield NumberRange(first, number - 1)


def settled_head(head: Head, number: int, kind: ChangeKind, *, in_turn: bool) -> Head:
    """The head after one message was settled. `in_turn`: nothing before it waits."""
    own = (NumberRange(number, number),)
    if kind is not ChangeKind.COLLECTED:
        return msgspec.structs.replace(head, apart=with_apart(head.apart, own, _APART[kind]))
    if in_turn:
        return advanced(head, number)
    # Below the head a message counts as collected unless it is listed.
    why = Apart.COLLECTED if number > head.head else None
    return msgspec.structs.replace(head, apart=with_apart(head.apart, own, why))

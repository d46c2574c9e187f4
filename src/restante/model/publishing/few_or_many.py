"""`Few | Many`: how much a send is. Decided here, at the door through which it comes, and carried along with it.

A few messages are plain values all the way: JSON on the wire, letters in the hub, work for the event loop itself. Many
are columns, made in threads. Each layer does the one or the other by the type; none counts once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from restante import limits
from restante.model.publishing.broadcast import Broadcast, has_broadcast
from restante.model.publishing.message import Message
from restante.model.storage.changes import Buffer


class Few(msgspec.Struct, frozen=True, gc=False):
    """A few messages, as plain values. Whether each is a `Message` is for the hub to say, like all that may be wrong."""

    messages: tuple[Message, ...]


class Many(msgspec.Struct, frozen=True):
    """Many messages, or columns of any length: a sequence, broadcasts among it, a table or what gives one, an `UndecodedBody`, or messages that are `Flawed`."""

    content: object


class EncodedPublish(NamedTuple):
    """Messages as a body. A publish over a network takes it in place of the messages: a repetition encodes nothing."""

    content_type: str
    body: Buffer


class UndecodedBody(NamedTuple):
    """Many messages as the Arrow stream of a caller, and the function that makes a table of it."""

    body: Buffer
    decode: Callable[[], object]


def are_few(count: int) -> bool:
    """Whether so many messages, or outcomes of messages, are few."""
    return count <= limits.FEW_MESSAGES_MAX


def few_or_many(sent: object) -> Few | Many:
    """Decide whether a caller sends few messages or many: a message, a sequence of them, or anything with Arrow columns.

    A broadcast is many: a list with one in it says how many messages it is only when it is spread.
    """
    if isinstance(sent, Message):
        return Many((sent,)) if isinstance(sent, Broadcast) else Few((sent,))
    if (
        isinstance(sent, list | tuple | Sequence)
        and are_few(len(sent))
        and not isinstance(sent, str | bytes)
        and not has_broadcast(sent)
    ):
        return Few(tuple(sent))
    return Many(sent)

"""The dialogues by which a producer publishes a parcel in its lane, without I/O. What must stay true:

- The same parcel is sent again under the same numbers. The hub then stores it, or recognises it.
- Before another parcel is numbered, lane and hub agree: the lane reads the hub's last number. If an unresolved parcel ends
  there, it is repeated, which the hub answers without storing it again; so it is certain which parcel was stored.
- An earlier attempt may still be on its way meanwhile. If it arrives before the new parcel, the hub refuses the new one;
  lane and hub agree once more, and the parcel is renumbered. If it arrives later, the hub refuses the earlier attempt.

So if different parcels ever get the same numbers, the hub stores only one of them, and the lane learns which.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from restante.calls.producers import OpenLink, ReadProducer
from restante.calls.publishing import Publish
from restante.client.producers.configuration import PartitionPublishingProperties
from restante.client.producers.lane import Lane
from restante.client.publishing.parcel import Parcel
from restante.client.transport.exchange import LongWork, Pause
from restante.client.transport.options import Retrying
from restante.client.transport.unreachable import warn
from restante.errors import (
    FaultyMessages,
    Internal,
    InvalidClientState,
    InvalidRequest,
    LinkRefused,
    OutcomeUnknown,
    ProducerDisconnected,
    ProducerUnknown,
    RestanteError,
    Unavailable,
)
from restante.limits import UNRESOLVED_PARCELS_MAX
from restante.model.mailboxes.answers import ProducerState, Receipt
from restante.model.producers.producer import disconnected, following, next_number
from restante.model.publishing.few_or_many import EncodedPublish, Few, Many
from restante.model.publishing.message import Message

T = TypeVar("T")

NOTHING_SENT = Receipt(accepted=0, duplicates=0, partitions=())


class Prepare(msgspec.Struct, frozen=True):
    """Gives the parcel's messages ids, and encodes them once for all attempts. The reply is the encoded publish or an error."""

    parcel: Parcel


# A `Publish` is one attempt; its reply is a `Receipt` or an error. The reply to a `Pause` is whether the producer is closing.
ProducerStep: TypeAlias = OpenLink | ReadProducer | Prepare | Publish | Pause | LongWork
Producing: TypeAlias = Generator[ProducerStep, Any, T]
"""A dialogue: yields steps and is sent their replies. If it is closed in between, its parcel rightly stays unresolved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPatience:
    """The patience of a producer: how often and how long it tries, with a clock and a source of randomness."""

    retrying: Retrying
    clock: Callable[[], float]
    chance: Callable[[], float]
    tell: Callable[[str], None] = warn

    def pause(self, attempt: int, error: RestanteError) -> float:
        """The pause before the next attempt: longer each time, and at least as long as the hub asks."""
        own = self.retrying.pause(attempt, self.chance())
        named = error.details.get("retry_after")
        return max(own, float(named)) if isinstance(named, int | float) else own


def send(lane: Lane, parcel: Parcel, patience: SendPatience) -> Producing[Receipt]:
    """Publish a parcel under numbers. Raises the refusal, or `OutcomeUnknown`."""
    unheard = parcel.take_unheard()
    if unheard is not None:
        lane.unheard = deque((other for other in lane.unheard if other is not parcel), UNRESOLVED_PARCELS_MAX)
        return unheard
    parcel.check_unpublished()
    if not len(parcel):
        return NOTHING_SENT
    check_open(lane)
    lane.admit(parcel)
    if parcel.numbers is None:
        parcel.check_messages()
        yield from agreeing(lane, patience, parcel)
    prepared = _prepared((yield Prepare(parcel)))
    try:
        return (yield from _delivered(lane, parcel, prepared, patience, anew=True))
    except _Overtaken:
        yield from agreeing(lane, patience, parcel)
        return (yield from _delivered(lane, parcel, prepared, patience))


def send_sent(lane: Lane, sent: object, patience: SendPatience, batch: str | None = None) -> Producing[Receipt]:
    """Publish what a caller sends in one call: a message, some messages, or columns."""
    parcel = lane.parcel_of(sent, batch) if lane.unresolved or lane.unheard else None
    if parcel is None:
        parcel = yield from _gathered(sent, lane.partition, batch)
    return (yield from send(lane, parcel, patience))


def send_sent_plainly(
    sent: object, partition: int | None, patience: SendPatience, batch: str | None = None
) -> Producing[Receipt]:
    """The dialogue of a send without numbers."""
    parcel = yield from _gathered(sent, partition, batch)
    return (yield from send_plainly(parcel, patience))


def send_plainly(parcel: Parcel, patience: SendPatience) -> Producing[Receipt]:
    """Publish a parcel without numbers."""
    parcel.check_unpublished()
    if not len(parcel):
        return NOTHING_SENT
    prepared = _prepared((yield Prepare(parcel)))
    reply, maybe_done = yield from _tried(patience, Publish(prepared, parcel.partition, None, parcel.batch))
    if isinstance(reply, RestanteError):
        raise _unknown(parcel, reply) if maybe_done and reply.retriable else reply
    parcel.set_published()
    return _receipt(reply)


def describing(lane: Lane, patience: SendPatience) -> Producing[PartitionPublishingProperties]:
    """The properties of the lane, read from the hub first if the two do not agree yet."""
    check_open(lane)
    if not lane.agreed:
        yield from agreeing(lane, patience)
    return lane.properties


def agreeing(lane: Lane, patience: SendPatience, parcel: Parcel | None = None) -> Producing[None]:
    """Make lane and hub agree on the last number, unless they do already, before `parcel` is numbered."""
    if lane.unresolved:
        yield from _resolving(lane, patience)
        # A parcel that was just resolved may have some of the same messages, which are then published already.
        if parcel is not None:
            parcel.check_messages()
    elif not lane.agreed:
        link = OpenLink(lane.partition, lane.group, lane.level, lane.last)
        reply = yield from _asked(lane, patience, link, LinkRefused)
        if isinstance(reply, LinkRefused):
            _go_on_stale(lane, reply, parcel)
            return
        state = _state(reply)
        lane.group, lane.level = state.producer_group, state.owner_level
        lane.agree(state.last_published_sequence_number)


def _go_on_stale(lane: Lane, refusal: LinkRefused, parcel: Parcel | None) -> None:
    """Go on although the hub has stored more since the state was saved with which the lane begins.

    If the program now repeats what it sent then, the parcel gets the same numbers, and the hub recognises it. The hub refuses
    anything else, and the caller gets the refusal of the link.
    """
    ends = None if parcel is None or lane.level is None else following(next_number(lane.last), len(parcel) - 1)
    if ends is None or ends != refusal.details.get("expected"):
        raise refusal
    lane.stale, lane.agreed = refusal, True


def check_open(lane: Lane) -> None:
    """Raise if the lane has been fenced off, which is final."""
    if lane.fenced is not None:
        raise ProducerDisconnected(lane.fenced.message, **lane.fenced.details)


def _gathered(sent: object, partition: int | None, batch: str | None) -> Producing[Parcel]:
    """A parcel of what a caller sends. Reading columns from a reader may take long."""
    if isinstance(sent, Message | list | tuple | pa.Table):
        return Parcel.of(sent, partition, batch)
    parcel = _welcome((yield LongWork(partial(Parcel.of, sent, partition, batch))))
    assert isinstance(parcel, Parcel)
    return parcel


_NOT_STORED = (InvalidClientState, InvalidRequest, FaultyMessages)
"""Answers to a repetition that say that the parcel is not stored. Its messages may have been changed since, and be invalid."""


class _Overtaken(Exception):
    pass


def _delivered(
    lane: Lane, parcel: Parcel, prepared: Few | Many | EncodedPublish, patience: SendPatience, *, anew: bool = False
) -> Producing[Receipt]:
    """Attempt a publish under the same numbers until an attempt is answered. With `anew`, raise `_Overtaken` for renumbering."""
    # A parcel with numbers was sent before, and that attempt may have been carried out, whatever becomes of this one.
    sent_before = parcel.numbers is not None
    numbers = lane.begin(parcel)
    reply, maybe_done = yield from _tried(patience, Publish(prepared, lane.partition, numbers, parcel.batch))
    if not isinstance(reply, RestanteError):
        receipt = _receipt(reply)
        lane.stored(parcel, receipt)
        return receipt
    if anew and lane.overtaken(parcel, reply):
        lane.refused(parcel)
        raise _Overtaken
    raise _failed(lane, parcel, reply, maybe_done=maybe_done or sent_before)


def _failed(lane: Lane, parcel: Parcel, error: RestanteError, *, maybe_done: bool) -> RestanteError:
    """The error for the caller. Updates the lane and the parcel by it."""
    if isinstance(error, ProducerDisconnected):
        lane.fenced = error
    if not maybe_done or isinstance(error, InvalidClientState):
        # The parcel's numbers are useless now. If an earlier attempt was stored after all, the hub recognises the ids.
        lane.refused(parcel)
        if isinstance(error, InvalidClientState):
            lane.disagree()
            error = lane.stale or (_passed(error) if maybe_done else error)
            lane.stale = None
        return error
    return _unknown(parcel, error) if error.retriable else error


def _passed(error: InvalidClientState) -> InvalidClientState:
    """The error for a parcel whose earlier attempt may have been stored, and that numbers can no longer identify."""
    return InvalidClientState(
        "The hub has gone on past the numbers of this parcel, which may have been stored before. Send it again: it gets "
        f"new numbers, and what is stored already is known by its ids. {error.message}",
        **error.details,
    )


def _resolving(lane: Lane, patience: SendPatience) -> Producing[None]:
    """Read the hub's last number, and find out which unresolved parcel ends with it."""
    last = yield from _read_last(lane, patience)
    for parcel in [other for other in lane.unresolved if other.end == last]:
        # The hub is past the parcel's numbers, so it recognises or refuses the repetition, and never stores it.
        reply = yield Prepare(parcel)
        if not isinstance(reply, RestanteError):
            again = Publish(_prepared(reply), lane.partition, parcel.numbers, parcel.batch)
            reply = yield from _asked(lane, patience, again, *_NOT_STORED)
        if isinstance(reply, RestanteError):
            lane.refused(parcel)
        else:
            lane.stored(parcel, _receipt(reply), heard=False)
            break
    lane.agree(last)


def _read_last(lane: Lane, patience: SendPatience) -> Producing[int | None]:
    assert lane.group is not None, "what is unresolved has a group"
    assert lane.level is not None, "and a level"
    reply = yield from _asked(lane, patience, ReadProducer(lane.partition, lane.group), ProducerUnknown)
    if isinstance(reply, ProducerUnknown):
        return None
    state = _state(reply)
    if state.owner_level > lane.level:
        lane.fenced = disconnected(lane.group, received=lane.level, current=state.owner_level)
        raise lane.fenced
    # At a level that the hub has not seen, numbering starts from the beginning.
    return state.last_published_sequence_number if state.owner_level == lane.level else None


def _asked(lane: Lane, patience: SendPatience, step: ProducerStep, *welcome: type[RestanteError]) -> Producing[object]:
    """The answer to a question that precedes the parcel. The parcel has not been sent, so no error leaves it in doubt."""
    reply, _ = yield from _tried(patience, step)
    if not isinstance(reply, RestanteError) or isinstance(reply, welcome):
        return reply
    if isinstance(reply, ProducerDisconnected):
        lane.fenced = reply
    if isinstance(reply, OutcomeUnknown):
        raise Unavailable(f"Nothing was sent, for the hub could not be asked first. {reply.message}") from reply
    raise reply


def _tried(patience: SendPatience, step: ProducerStep) -> Producing[tuple[object, bool]]:
    """The last reply within `patience`, and whether one of the attempts may have been carried out."""
    began, maybe_done = patience.clock(), False
    for attempt in count(1):
        reply = yield step
        if not isinstance(reply, RestanteError):
            return reply, True
        maybe_done = maybe_done or isinstance(reply, OutcomeUnknown | Internal)
        pause = patience.pause(attempt, reply) if reply.retriable else 0
        late = patience.clock() - began + pause > patience.retrying.seconds
        if not reply.retriable or attempt > patience.retrying.times or late:
            return reply, maybe_done
        if attempt == 1 and isinstance(reply, Unavailable):
            patience.tell(f"{reply.message} Trying again, for up to {patience.retrying.seconds:g} s.")
        if (yield Pause(pause)):
            return reply, maybe_done
    raise AssertionError("counting does not end")


def _unknown(parcel: Parcel, error: RestanteError) -> OutcomeUnknown:
    unknown = OutcomeUnknown(
        f"Nobody knows whether the parcel was stored: send the same one again, and it is stored once. {error.message}",
        **error.details,
    )
    unknown.parcel = parcel
    unknown.__cause__ = error
    return unknown


def _prepared(reply: object) -> Few | Many | EncodedPublish:
    prepared = _welcome(reply)
    assert isinstance(prepared, Few | Many | EncodedPublish), "a parcel is prepared as something to publish"
    return prepared


def _welcome(reply: object) -> object:
    if isinstance(reply, RestanteError):
        raise reply
    return reply


def _state(reply: object) -> ProducerState:
    assert isinstance(reply, ProducerState), "a link or a reading is answered by a state"
    return reply


def _receipt(reply: object) -> Receipt:
    assert isinstance(reply, Receipt), "a publish is answered by a receipt"
    return reply

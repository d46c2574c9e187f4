"""Dialogues of a producer that publishes a parcel in its lane: without input and output. What must stay true:

- The same parcel is sent again under the same numbers. The hub stores it, or knows it.
- Before anything else is numbered, lane and hub agree again: the hub's last number is read. If an unresolved parcel ends
  there, it is repeated, which the hub answers without storing it again: so it is known for sure which one was stored.
- An attempt may still be on its way while they agree. If it arrives before the new parcel, the new one is refused, they
  agree once more, and it is numbered afresh. If it arrives later, the hub refuses it.

So different messages never meet under the same numbers unless the hub is there to tell them apart.
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
    """Ids for the parcel's messages, and what is sent of them, once for all attempts. The reply is that, or an error."""

    parcel: Parcel


# The reply to a publish, one attempt at what was prepared, is a `Receipt` or an error; to a pause, whether to give up, for
# the producer is being closed.
ProducerStep: TypeAlias = OpenLink | ReadProducer | Prepare | Publish | Pause | LongWork
Producing: TypeAlias = Generator[ProducerStep, Any, T]
"""Yields a step and is sent the reply. Closing it between the two leaves the parcel unresolved, as it should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPatience:
    """How often and how long a producer tries; time and chance come from outside."""

    retrying: Retrying
    clock: Callable[[], float]
    chance: Callable[[], float]
    tell: Callable[[str], None] = warn

    def pause(self, attempt: int, error: RestanteError) -> float:
        """The pause before the next attempt: as the hub says, or longer each time."""
        own = self.retrying.pause(attempt, self.chance())
        named = error.details.get("retry_after")
        return max(own, float(named)) if isinstance(named, int | float) else own


def send(lane: Lane, parcel: Parcel, patience: SendPatience) -> Producing[Receipt]:
    """Publish a parcel under numbers; raises why it was refused, or `OutcomeUnknown`."""
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
    """Publish what a caller sends at once: a message, some messages, or columns."""
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
    """How the lane stands; read from the hub if it has not been yet."""
    check_open(lane)
    if not lane.agreed:
        yield from agreeing(lane, patience)
    return lane.properties


def agreeing(lane: Lane, patience: SendPatience, parcel: Parcel | None = None) -> Producing[None]:
    """Make lane and hub agree on the last number, unless they do, before this parcel is numbered."""
    if lane.unresolved:
        yield from _resolving(lane, patience)
        # What was resolved just now may hold some of its messages.
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
    """The hub has gone on after the state was saved that the lane begins with.

    If the program sends again what it had sent then, it gets the same numbers, and the hub knows it. Anything else is
    refused by the hub, and the caller hears of the link.
    """
    ends = None if parcel is None or lane.level is None else following(next_number(lane.last), len(parcel) - 1)
    if ends is None or ends != refusal.details.get("expected"):
        raise refusal
    lane.stale, lane.agreed = refusal, True


def check_open(lane: Lane) -> None:
    """A lane that was fenced off once is of no use any more."""
    if lane.fenced is not None:
        raise ProducerDisconnected(lane.fenced.message, **lane.fenced.details)


def _gathered(sent: object, partition: int | None, batch: str | None) -> Producing[Parcel]:
    """A parcel of what a caller sends. Columns may have to be read from somewhere first."""
    if isinstance(sent, Message | list | tuple | pa.Table):
        return Parcel.of(sent, partition, batch)
    parcel = _welcome((yield LongWork(partial(Parcel.of, sent, partition, batch))))
    assert isinstance(parcel, Parcel)
    return parcel


_NOT_STORED = (InvalidClientState, InvalidRequest, FaultyMessages)
"""Answers to a repetition of what is not stored. Somebody may have changed its messages, so that they are not even right."""


class _Overtaken(Exception):
    pass


def _delivered(
    lane: Lane, parcel: Parcel, prepared: Few | Many | EncodedPublish, patience: SendPatience, *, anew: bool = False
) -> Producing[Receipt]:
    """Attempts under the same numbers, until one is answered. With `anew` it may be numbered afresh, if overtaken."""
    # What has numbers already was sent before: whatever this call does, that attempt may have been carried out.
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
    """The error that the caller is told, when the parcel stands as the answers leave it."""
    if isinstance(error, ProducerDisconnected):
        lane.fenced = error
    if not maybe_done or isinstance(error, InvalidClientState):
        # Its numbers are of no use any more. Should an earlier attempt have been stored and passed, its ids tell.
        lane.refused(parcel)
        if isinstance(error, InvalidClientState):
            lane.disagree()
            error = lane.stale or (_passed(error) if maybe_done else error)
            lane.stale = None
        return error
    return _unknown(parcel, error) if error.retriable else error


def _passed(error: InvalidClientState) -> InvalidClientState:
    """The error for a parcel whose earlier attempt may have been stored before other parcels were: its numbers no longer tell."""
    return InvalidClientState(
        "The hub has gone on past the numbers of this parcel, which may have been stored before. Send it again: it gets "
        f"new numbers, and what is stored already is known by its ids. {error.message}",
        **error.details,
    )


def _resolving(lane: Lane, patience: SendPatience) -> Producing[None]:
    """Read the hub's last number, and find out which of the unresolved parcels it belongs to."""
    last = yield from _read_last(lane, patience)
    for parcel in [other for other in lane.unresolved if other.end == last]:
        # The hub is past its numbers: the repetition is known, or refused, and never stored.
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
    # A level that the hub has not seen yet starts anew.
    return state.last_published_sequence_number if state.owner_level == lane.level else None


def _asked(lane: Lane, patience: SendPatience, step: ProducerStep, *welcome: type[RestanteError]) -> Producing[object]:
    """An answer that the parcel in hand does not depend on: it has not been sent, whatever comes."""
    reply, _ = yield from _tried(patience, step)
    if not isinstance(reply, RestanteError) or isinstance(reply, welcome):
        return reply
    if isinstance(reply, ProducerDisconnected):
        lane.fenced = reply
    if isinstance(reply, OutcomeUnknown):
        raise Unavailable(f"Nothing was sent, for the hub could not be asked first. {reply.message}") from reply
    raise reply


def _tried(patience: SendPatience, step: ProducerStep) -> Producing[tuple[object, bool]]:
    """The last reply of as many attempts as patience allows, and whether one of them may have been carried out."""
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

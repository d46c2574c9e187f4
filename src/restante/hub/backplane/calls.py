"""Which publishes go through the backplane, and how."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from restante.calls.publishing import Publish
from restante.errors import RestanteError
from restante.hub.backplane import outcomes, refused, status, tasks
from restante.hub.backplane.dispatch import Dispatch
from restante.hub.backplane.doorway import Doorway, RecordParcel
from restante.hub.backplane.memory import BackplaneMemory
from restante.hub.backplane.parcels import NotForBackplane, RecordCut, column_parcels, letter_parcels
from restante.hub.backplane.publish_checks import goes_through, refuse_delayed, takes_nothing
from restante.hub.engine.commit_request import LoopWaiter
from restante.hub.engine.committer import answer_all
from restante.hub.engine.core import Core
from restante.hub.engine.procedures import Functions
from restante.hub.mailboxes.origins import claim_check_origins
from restante.hub.publishing import calls as publishing
from restante.hub.publishing.publish import check_number
from restante.hub.publishing.publish_request import ReadMessages
from restante.hub.publishing.refuse import whole_refusal
from restante.hub.publishing.sent import sent_columns, taken_apart
from restante.model.access.access import Grant
from restante.model.backplane.accept import Accept
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import EncodedPublish, Few
from restante.model.publishing.letters import letter_of
from restante.model.publishing.message import MessageColumns
from restante.model.sources.source import refuse_positions
from restante.model.storage.letter import Letter
from restante.model.storage.partition import partitions_of
from restante.ports.backplane import Backplane

DOOR_BYTES = 16
Waiter = threading.Lock | LoopWaiter[Receipt]


def begin(core: Core, backplane: Backplane | None) -> None:
    """Have publishes go through a backplane, if there is one; an error if it does not fit the hub."""
    if backplane is None:
        return
    doorway = Doorway(backplane, core.random(DOOR_BYTES), core.settings.backplane.stored_seconds)
    core.remember(BackplaneMemory(backplane, doorway))
    try:
        tasks.check(core)
        status.measure_backplane(core)
    except BaseException:
        backplane.close()
        raise


def end(core: Core) -> None:
    backplane = core.memory(BackplaneMemory).backplane
    if backplane is not None:
        backplane.close()


def publish(core: Core, call: Publish, caller: Grant) -> Receipt:
    """Publish through the backplane, if there is one and the publish may go there; else straight to the committer."""
    lock = threading.Lock()
    lock.acquire()
    dispatch = _dispatched(core, call, caller, lock)
    if dispatch is None:
        return publishing.publish(core, call, caller)
    lock.acquire()
    return dispatch.answer()


def publish_soon(core: Core, call: Publish, caller: Grant, waiter: LoopWaiter[Receipt]) -> bool:
    """Publish through the backplane, if the call may go that way; the waiter gets the request, answered, in its own event loop."""
    return _dispatched(core, call, caller, waiter) is not None


def publish_letters_soon(
    core: Core,
    letters: Sequence[Letter],
    read: ReadMessages,
    partition: int | None,
    caller: Grant,
    waiter: LoopWaiter[Receipt],
) -> None:
    """Publish a few messages that are plainly right; `read` gives them as they were sent. The waiter hears of errors, too."""
    try:
        doorway = open_door(core)
        here = all(core.locate(letter.recipient).partition in core.owned for letter in letters)
        if here and _are_plain(core, letters, partition, caller):
            _send(doorway, Accept.STORED, letter_parcels(_cut(core), letters), waiter)
        else:
            _publish_read(core, Publish.of(read(), partition=partition), caller, waiter)
    except NotForBackplane:
        _publish_read(core, Publish.of(read(), partition=partition), caller, waiter)
    except RestanteError as error:
        failed = Dispatch(Accept.STORED, 0)
        failed.waiter, failed.error = waiter, error
        answer_all((failed,))


def _publish_read(core: Core, call: Publish, caller: Grant, waiter: LoopWaiter[Receipt]) -> None:
    if not publish_soon(core, call, caller, waiter):
        core.committer.submit_soon(publishing.publish_request(core, call, caller), waiter)


def _dispatched(core: Core, call: Publish, caller: Grant, waiter: Waiter) -> Dispatch | None:
    way = way_of(core, call)
    parcels = None if way is None else parcels_of(core, call, caller)
    if way is None or parcels is None:
        return None
    if call.accept is not Accept.ACCEPTED:
        for parcel in parcels:
            core.require_owned(parcel.partition)  # an owner reports stored records only to its own doors
    return _send(way, call.accept or Accept.STORED, parcels, waiter)


def _send(way: Doorway, accept: Accept, parcels: Sequence[RecordParcel], waiter: Waiter) -> Dispatch:
    dispatch = way.dispatch(accept)
    dispatch.waiter = waiter
    way.send(dispatch, parcels)
    return dispatch


def way_of(core: Core, call: Publish) -> Doorway | None:
    """The door for this publish; None if it goes straight. `InvalidRequest` if it may not be merely accepted."""
    has_backplane = core.memory(BackplaneMemory).doorway is not None
    return open_door(core) if goes_through(call, has_backplane=has_backplane) else None


def open_door(core: Core) -> Doorway:
    """The door; `Unavailable` while the log does not fit the hub, or that is not known."""
    memory = core.memory(BackplaneMemory)
    assert memory.doorway is not None, "who has a backplane has a door"
    if memory.unfit is not None:
        raise takes_nothing(memory.unfit)
    return memory.doorway


def parcels_of(core: Core, call: Publish, caller: Grant) -> list[RecordParcel] | None:
    """The messages, checked whole, as parcels; None if they have to go straight: delayed ones, and one too large."""
    check_number(core, call.partition)
    try:
        return _parcels(core, call, caller)
    except NotForBackplane:
        if call.accept is Accept.ACCEPTED:
            raise
        return None


def _parcels(core: Core, call: Publish, caller: Grant) -> list[RecordParcel]:
    if isinstance(call.sent, EncodedPublish):
        raise taken_apart()
    letters = _letters(core, call, caller)
    if letters is not None:
        return letter_parcels(_cut(core), letters)
    columns = sent_columns(core, call.sent, caller, call.partition)
    refuse_positions(columns)
    _check_place(core, columns, call.partition)
    refuse_delayed(columns, core.clock())
    return list(column_parcels(_cut(core), columns))


def _cut(core: Core) -> RecordCut:
    backplane = core.memory(BackplaneMemory).backplane
    assert backplane is not None, "who has a door has a backplane"
    count, bytes_max = core.deed.partition_count, backplane.record_bytes_max
    return RecordCut(count, bytes_max, lambda name: core.locate(name).partition, core.random, core.clock)


def _check_place(core: Core, columns: MessageColumns, partition: int | None) -> None:
    if partition is None:
        return
    own = partitions_of(columns.recipient.values, core.deed.partition_count)
    if bool((own != partition).any()):
        raise whole_refusal(core, columns, (), partition)


def _letters(core: Core, call: Publish, caller: Grant) -> list[Letter] | None:
    """A few messages that are plainly right, as letters; None if the rules have to take a closer look."""
    if not isinstance(call.sent, Few):
        return None
    allowed, bytes_max = claim_check_origins(core), core.settings.data_bytes_max
    letters: list[Letter] = []
    for message in call.sent.messages:
        letter = letter_of(message, claim_check_origins=allowed, data_bytes_max=bytes_max)
        if letter is None:
            return None
        letters.append(letter)
    return letters if letters and _are_plain(core, letters, call.partition, caller) else None


def _are_plain(core: Core, letters: Sequence[Letter], partition: int | None, caller: Grant) -> bool:
    """Whether these are the caller's to send, and for the partition that they are sent to."""
    origins, bytes_max = caller.publishable(), core.settings.data_bytes_max
    return all(
        (origins is None or letter.origin in origins)
        and len(letter.data) <= bytes_max
        and (partition is None or core.locate(letter.recipient).partition == partition)
        for letter in letters
    )


FUNCTIONS: Functions = {Publish: publish, **status.FUNCTIONS, **refused.FUNCTIONS, **outcomes.FUNCTIONS}

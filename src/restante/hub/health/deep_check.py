"""The deep check: a message is written, read back and dequeued, as a publisher and a recipient would do it.

It is of an origin that nobody else publishes for, lives for ten seconds, and is left out of the feed, of snapshots and
of the list of recipients. Each check is of one partition; the next one takes the next partition.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import TypeVar, cast

from restante.calls.mailboxes import Dequeue, Peek
from restante.errors import RestanteError
from restante.hub.engine.commit_request import CommitRequest, Planned
from restante.hub.engine.core import Core, MailboxAddress, uuid_text
from restante.hub.engine.partitions import Partition
from restante.hub.mailboxes.calls import dequeue_request, peek_bundle
from restante.hub.mailboxes.history import records_of
from restante.hub.mailboxes.recipient_list import PREFIX, HealthMail
from restante.hub.publishing.publish import large_publish
from restante.hub.publishing.sent import own_columns
from restante.hub.removal.retention import forget_records
from restante.model.access.access import EVERYTHING
from restante.model.actions.action_kind import ACTION_KIND
from restante.model.mailboxes.answers import Reason, moment
from restante.model.mailboxes.message_tables import to_messages
from restante.model.publishing.message import HEALTH_ORIGIN, Message
from restante.model.storage.keys import Cabinet
from restante.model.storage.partition import partition_of

T = TypeVar("T")

LIFE_SECONDS = 10.0
_KIND = "check"
_BUNDLES_MAX = 10
_NAMES_MAX = 1_000_000
_KEPT = _FORGET_EVERY = 3_600 * 1_000_000
"""How long checks stay in history, and how often those past it are forgotten."""


def health_recipient(partition: int, partition_count: int) -> str:
    """`restante.health.<partition>`, with a number after it if that alone would lie in another partition."""
    name = f"{PREFIX}{partition}"
    names = chain((name,), (f"{name}.{number}" for number in range(1, _NAMES_MAX)))
    return next(one for one in names if partition_of(one, partition_count) == partition)


def forget_checks(core: Core) -> int:
    """A chore: checks that were settled an hour ago leave history; gives how many messages that were.

    The retention of history is for mail. An idle hub would keep a quarter of a million of these.
    """
    mail, now = core.memory(HealthMail), core.clock()
    if now < mail.forget_at:
        return 0
    mail.forget_at = now + _FORGET_EVERY
    return sum(_forget_in(core, partition, now - _KEPT) for partition in core.partitions)


def _forget_in(core: Core, partition: Partition, before: int) -> int:
    address = core.address(health_recipient(partition.number, core.deed.partition_count))
    cabinets = [Cabinet(address.recipient, HEALTH_ORIGIN, kind) for kind in (_KIND, ACTION_KIND)]
    settled = [entry for cabinet in cabinets for entry in records_of(core, address, cabinet)]
    due = [(number, record) for number, record in settled if record.at <= before]
    return core.commit(lambda draft: forget_records(core, draft, partition, due, in_feed=False)) if due else 0


def deep_check(core: Core, partition: int) -> str | None:
    """Write, read back and dequeue a message in a partition; gives what went wrong."""
    address = core.address(health_recipient(partition, core.deed.partition_count))
    try:
        return _checked(core, address)
    except RestanteError as error:
        return f"A check message in partition {partition} failed ({error.code}): {error.message}"
    finally:
        # A message that a failed check has left waits until it expires, as any message does.
        core.memory(HealthMail).remove(partition)


def _checked(core: Core, address: MailboxAddress) -> str | None:
    recipient = address.recipient
    message_id = _write(core, address)
    for _ in range(_BUNDLES_MAX):
        found = peek_bundle(core, Peek(recipient, origins=(HEALTH_ORIGIN,)), EVERYTHING)
        if isinstance(found, Reason):
            return f"A check message for {recipient} was written and not found again ({found.value})."
        read = [message.id for message in to_messages(found.table)]
        _submit(core, dequeue_request(core, Dequeue(recipient, found.bundle_id)), HealthMail.remove, address)
        if message_id in read:
            return None
    return f"A check message for {recipient} was written and is not among those that were read."


def _write(core: Core, address: MailboxAddress) -> str:
    message_id = uuid_text(core.new_uuid())
    message = Message(
        recipient=address.recipient,
        id=message_id,
        origin=HEALTH_ORIGIN,
        kind=_KIND,
        data={"check": message_id},
        expires_at=moment(core.clock()) + timedelta(seconds=LIFE_SECONDS),
    )
    _submit(core, large_publish(core, own_columns(message), None), HealthMail.add, address)
    return message_id


def _submit(
    core: Core, request: CommitRequest[T], change: Callable[[HealthMail, int], None], address: MailboxAddress
) -> T:
    """Commit, and change with the same commit what waits of the checks: no count ever shows it."""
    apply = partial(change, core.memory(HealthMail), address.partition)
    beside: CommitRequest[object] = Planned(lambda draft: draft.applies.append(apply))
    core.committer.submit_each((cast("CommitRequest[object]", request), beside))
    return request.answer()

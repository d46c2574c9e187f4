"""The deep check: a message is written, read back and dequeued, as a publisher and a recipient would do it.

It is of an origin that nobody else publishes for, lives for ten seconds, and is left out of the feed, of snapshots and
of the list of recipients. Each check is of one partition; the next one takes the next partition.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import chain

from restante.calls.mailboxes import Dequeue, Peek
from restante.errors import RestanteError
from restante.hub.engine.core import Core, uuid_text
from restante.hub.mailboxes.calls import dequeue_bundle, peek_bundle
from restante.hub.mailboxes.health_mailboxes import PREFIX
from restante.hub.publishing.publish import large_publish
from restante.hub.publishing.sent import own_columns
from restante.model.access.access import EVERYTHING
from restante.model.mailboxes.answers import moment
from restante.model.mailboxes.outtake import to_messages
from restante.model.publishing.message import HEALTH_ORIGIN, Message
from restante.model.storage.partition import partition_of

LIFE_SECONDS = 10.0
_KIND = "check"
_BUNDLES_MAX = 10
_NAMES_MAX = 1_000_000


def health_recipient(partition: int, partition_count: int) -> str:
    """`restante.health.<partition>`, with a number after it if that alone would lie in another partition."""
    name = f"{PREFIX}{partition}"
    names = chain((name,), (f"{name}.{number}" for number in range(1, _NAMES_MAX)))
    return next(one for one in names if partition_of(one, partition_count) == partition)


def deep_check(core: Core, partition: int) -> str | None:
    """Write, read back and dequeue a message in a partition; gives what went wrong."""
    try:
        return _checked(core, health_recipient(partition, core.deed.partition_count))
    except RestanteError as error:
        return f"A check message in partition {partition} failed ({error.code}): {error.message}"


def _checked(core: Core, recipient: str) -> str | None:
    message_id = _write(core, recipient)
    for _ in range(_BUNDLES_MAX):
        found = peek_bundle(core, Peek(recipient, origins=(HEALTH_ORIGIN,)), EVERYTHING)
        if found is None:
            return f"A check message for {recipient} was written and not found again within {LIFE_SECONDS:g} s."
        read = [message.id for message in to_messages(found.table)]
        dequeue_bundle(core, Dequeue(recipient, found.bundle_id), EVERYTHING)
        if message_id in read:
            return None
    return f"A check message for {recipient} was written and is not among those that were read."


def _write(core: Core, recipient: str) -> str:
    message_id = uuid_text(core.new_uuid())
    message = Message(
        recipient=recipient,
        id=message_id,
        origin=HEALTH_ORIGIN,
        kind=_KIND,
        data={"check": message_id},
        expires_at=moment(core.clock()) + timedelta(seconds=LIFE_SECONDS),
    )
    core.submit(large_publish(core, own_columns(message), None))
    return message_id

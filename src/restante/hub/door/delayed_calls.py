"""The calls that also concern delayed messages: a message is looked for among the stored ones first, then among those aside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from restante.calls.mailboxes import FindMessage
from restante.calls.removal import Erase, Release, SetAside, Withdraw
from restante.calls.shards import ShowMessage
from restante.errors import MessageUnknown
from restante.hub.engine.core import Core, MailboxAddress
from restante.hub.engine.procedures import Functions
from restante.hub.engine.subject import HubSubject
from restante.hub.mailboxes import history
from restante.hub.publishing.delayed import find_delayed, take_back, take_back_all
from restante.hub.removal import erase, removal
from restante.model.access.access import Grant
from restante.model.columns.texts import Texts
from restante.model.mailboxes.answers import moment
from restante.model.mailboxes.message_tables import time_column, to_messages, to_table
from restante.model.publishing.delay import DelayedRow, columns_of
from restante.model.publishing.message import NEVER, Message, State
from restante.wire.outgoing.outgoing import message_json


def find_table(core: Core, address: MailboxAddress, message_id: str) -> pa.Table:
    """One message as columns of one row; of a delayed one with the column `visible_at`, and the number 0."""
    try:
        return history.find_table(core, address, message_id)
    except MessageUnknown:
        row = find_delayed(core, address, message_id)
        if row is None:
            # The message may have been published between the two looks.
            return history.find_table(core, address, message_id)
        return _table_of(row)


def find_message(core: Core, call: FindMessage, _: Grant) -> Message:
    return to_messages(find_table(core, core.address(call.recipient), call.message_id))[0]


def show_message(core: Core, call: ShowMessage, _: Grant) -> bytes:
    shown = message_json(find_table(core, core.address(call.recipient), call.message_id))
    core.store.require_owned()
    return shown


def withdraw(core: Core, call: Withdraw, _: Grant) -> None:
    address = core.address(call.recipient)
    try:
        removal.withdraw(core, address, call.message_id)
    except MessageUnknown:
        if not take_back(core, address, call.message_id):
            removal.withdraw(core, address, call.message_id)


def set_aside(core: Core, call: SetAside, _: Grant) -> None:
    address = core.address(call.recipient)
    with _telling_of_a_delayed(core, address, call.message_id):
        removal.set_aside(core, address, call.message_id)


def release(core: Core, call: Release, _: Grant) -> None:
    address = core.address(call.recipient)
    with _telling_of_a_delayed(core, address, call.message_id):
        removal.release(core, address, call.message_id)


@contextmanager
def _telling_of_a_delayed(core: Core, address: MailboxAddress, message_id: str) -> Iterator[None]:
    """A message that is unknown because it is delayed: the error says so, and what can be done with it."""
    try:
        yield
    except MessageUnknown as error:
        row = find_delayed(core, address, message_id)
        if row is None:
            raise
        raise MessageUnknown(
            f"{address.recipient} has no message {message_id} yet: it is delayed until {moment(row.due).isoformat()}. "
            "Until then it can only be withdrawn.",
            id=message_id,
        ) from error


def erase_recipient(core: Core, call: Erase, _: Grant) -> int:
    """Erase a recipient, with its delayed messages: nobody must hear of them later. They are not counted, as history has none."""
    address = core.address(call.recipient)
    if not call.dry_run:
        take_back_all(core, address)
    return erase.erase(core, address, dry_run=call.dry_run)


def _table_of(row: DelayedRow) -> pa.Table:
    never, state = np.full(1, NEVER, np.int64), Texts.constant(State.DELAYED.value, 1)
    table = to_table(
        columns_of([row]), sequence_number=np.zeros(1, np.int64), published_at=never, collected_at=never, state=state
    )
    return table.append_column("visible_at", time_column(np.array([row.due], np.int64)))


FUNCTIONS: Functions = {
    FindMessage: find_message,
    ShowMessage: show_message,
    Withdraw: withdraw,
    SetAside: set_aside,
    Release: release,
    Erase: erase_recipient,
}
SUBJECT = HubSubject(functions=FUNCTIONS)

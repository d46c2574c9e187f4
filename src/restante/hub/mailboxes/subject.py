"""The registration of mailboxes, origins and live delivery with a hub."""

from __future__ import annotations

from functools import partial

from restante.calls.batches import ReadProgress
from restante.calls.mailboxes import Explain, FindMessage, ListPartitions, ListRecipients, Peek, ReadHistory
from restante.hub.engine.core import Core
from restante.hub.engine.subject import HubSubject, Opening
from restante.hub.mailboxes import calls, outbox
from restante.hub.mailboxes.live_mail import announce
from restante.hub.mailboxes.origins import Origins


def _open(core: Core, opening: Opening) -> None:
    core.remember(Origins(opening.origins))
    core.announcers.append(partial(announce, core))


SUBJECT = HubSubject(
    functions=calls.FUNCTIONS,
    reading=(Peek, Explain, ReadHistory, FindMessage, ListRecipients, ListPartitions, ReadProgress),
    open=_open,
    tasks=(outbox.TASK,),
)

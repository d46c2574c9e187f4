"""Sends that share a request, for a server that queues them straight from its connections."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from restante.hub.backplane.memory import BackplaneMemory
from restante.hub.door.hub import OpenHub
from restante.hub.engine.commit_request import CommitRequest, LastListener, LoopWaiter
from restante.hub.publishing.publish_request import PlainPublish, ReadMessages
from restante.model.access.access import Grant
from restante.model.mailboxes.answers import Receipt
from restante.model.storage.letter import Letter

SendOutcomes = Sequence[Receipt | BaseException]
"""The receipt of each send, or what it was refused for."""


class PlainSend(NamedTuple):
    """A send whose messages were found to be plainly right when they came."""

    letters: Sequence[Letter]
    read: ReadMessages
    """Gives the messages as they were sent."""


def send_each_soon(hub: OpenHub, sends: Sequence[PlainSend], caller: Grant, waiter: LoopWaiter[SendOutcomes]) -> bool:
    """Have each send stored, or refused, as if it had come alone; False if they go through a backplane: nothing is done."""
    core = hub.core
    if core.memory(BackplaneMemory).doorway is not None:
        return False
    requests = [PlainPublish(letters, read, caller) for letters, read in sends]
    listener = LastListener(len(requests), partial(_outcomes, requests), waiter)
    core.committer.submit_each_soon(requests, [listener] * len(requests))
    return True


def _outcomes(requests: Sequence[PlainPublish]) -> SendOutcomes:
    return [_outcome(request) for request in requests]


def _outcome(request: CommitRequest[Receipt]) -> Receipt | BaseException:
    try:
        return request.answer()
    except Exception as error:  # noqa: BLE001  # the other sends get their answers whatever it is
        return error

"""The link that a member's own threads use over HTTP, whatever the program uses: they wait for their answers."""

from __future__ import annotations

from restante.calls.call import Answer, Call
from restante.client.groups import group_protocol
from restante.client.transport.http_carrier_sync import HttpCarrier
from restante.client.transport.requests import dialogue_of


class MemberLink(HttpCarrier):
    """The calls about groups, over connections of its own."""

    def call(self, call: Call[Answer]) -> Answer:
        return self._run(dialogue_of(group_protocol.DIALOGUES, self._terms, call))

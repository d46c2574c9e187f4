# Generated from `http_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""The link over HTTP for programs that wait. `DIALOGUES` has the calls, and `HttpCarrier` carries them out."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import cast

from restante.calls.batches import AcknowledgeItems
from restante.calls.call import Answer, Call
from restante.calls.publishing import Publish
from restante.client.actions import action_protocol
from restante.client.backplane import backplane_protocol
from restante.client.batches import batch_protocol
from restante.client.batches.joint_calls import ACKNOWLEDGEMENTS, SENDS, JointOutcome, joint_call
from restante.client.batches.joint_sync import JointCalls
from restante.client.consignments import consignment_protocol
from restante.client.feed import feed_protocol
from restante.client.groups import group_protocol
from restante.client.groups.member_link import MemberLink
from restante.client.jobs import job_protocol
from restante.client.live.live_socket_sync import SyncSocketDoor
from restante.client.nodes import node_protocol
from restante.client.publishing.joint_sends import joint_send, may_share, send_each
from restante.client.sockets.publish_socket_sync import PublishSocket
from restante.client.sources import source_protocol
from restante.client.transport import protocol
from restante.client.transport.http_carrier_sync import HttpCarrier
from restante.client.transport.options import Retrying, Terms
from restante.client.transport.requests import Dialogues, dialogue_of
from restante.client.transport.small_protocol import publish_encoded
from restante.model.batches.batch_answers import Acknowledged
from restante.model.mailboxes.answers import Receipt
from restante.model.publishing.few_or_many import Few, Many
from restante.wire.publish import EncodedPublish, encode_publish

DIALOGUES: Dialogues = {
    **protocol.DIALOGUES,
    **batch_protocol.DIALOGUES,
    **consignment_protocol.DIALOGUES,
    **feed_protocol.DIALOGUES,
    **group_protocol.DIALOGUES,
    **action_protocol.DIALOGUES,
    **source_protocol.DIALOGUES,
    **backplane_protocol.DIALOGUES,
    **job_protocol.DIALOGUES,
    **node_protocol.DIALOGUES,
}


class HttpLink(HttpCarrier):
    """A link over HTTP. Calls may come from any thread; each uses its own connection from the pool."""

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._joint = JointCalls(self._acknowledge, ACKNOWLEDGEMENTS)
        self._sends: JointCalls[Receipt] = JointCalls(self._send_each, SENDS)

    def with_retrying(self, retrying: Retrying) -> HttpLink:
        """A link over the same connections with other retrying. Closing one closes both."""
        other = copy(self)
        other._terms = replace(self._terms, retrying=retrying)  # noqa: SLF001 - a copy of itself
        other._joint = JointCalls(other._acknowledge, ACKNOWLEDGEMENTS)  # noqa: SLF001 - a copy of itself
        other._sends = JointCalls(other._send_each, SENDS)  # noqa: SLF001 - a copy of itself
        return other

    def frames(self) -> PublishSocket:
        """A separate link to the same hub that sends parcels over one web socket."""
        return PublishSocket(self._terms)

    def encode(self, sent: Few | Many | EncodedPublish) -> EncodedPublish:
        """The encoded body of a publish. A `Publish` takes it in place of the messages."""
        return encode_publish(sent, now_ms=self._terms.now_ms(), random=self._terms.random)

    def call(self, call: Call[Answer]) -> Answer:
        """Make a call, and return the hub's answer."""
        if isinstance(call, AcknowledgeItems):
            return cast("Answer", self._acknowledge_jointly(call))
        if isinstance(call, Publish) and may_share(call):
            return cast("Answer", self._publish_jointly(call))
        return self._run(dialogue_of(DIALOGUES, self._terms, call))

    def _acknowledge_jointly(self, call: AcknowledgeItems) -> Acknowledged:
        """Acknowledge items. A small call may share a request with others made at the same time."""
        joint = joint_call(call)
        if ACKNOWLEDGEMENTS.is_large(joint):
            (answer,) = self._acknowledge((joint.text,))
            return answer
        return self._joint.carry_out(joint)

    def _acknowledge(self, calls: Sequence[bytes]) -> tuple[Acknowledged, ...]:
        return self._run(batch_protocol.acknowledge(self._terms, calls))

    def _publish_jointly(self, call: Publish) -> Receipt:
        """Publish a few messages. A small send may share a request with others made at the same time."""
        encoded = self.encode(call.sent)
        joint = joint_send(self._terms, encoded)
        if joint is None or SENDS.is_large(joint):
            return self._run(publish_encoded(self._terms, encoded))
        return self._sends.carry_out(joint)

    def _send_each(self, sends: Sequence[bytes]) -> Sequence[JointOutcome[Receipt]]:
        return self._run(send_each(self._terms, sends))

    def apart(self, *, timeout: float | None = None) -> MemberLink:
        """A separate link to the same hub, for the threads of a member. It does not retry."""
        own = self._terms
        seconds = own.timeout if timeout is None else timeout
        return MemberLink(replace(own, timeout=seconds, retrying=Retrying(times=0)))

    def live(self, recipient: str, *, client: str | None = None) -> SyncSocketDoor:
        """The door through which a mailbox is followed. It does not connect yet."""
        return SyncSocketDoor(self._terms, recipient, client)

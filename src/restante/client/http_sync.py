"""The link over HTTP for programs that wait. All that is said is in `protocol`; here it is only carried out."""

from __future__ import annotations

import threading
from collections.abc import Collection
from concurrent.futures import Future
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from pyreqwest.client import SyncClientBuilder
from pyreqwest.exceptions import PyreqwestError

from restante.client import protocol
from restante.client.exchange import Dialogue, Pause, Reply, Request, Work
from restante.client.frame_link_sync import FrameLink
from restante.client.http import closed, configured, failure_of, filled, response_of
from restante.client.http_batches_sync import BatchCalls
from restante.client.http_consignments_sync import ConsignmentCalls
from restante.client.http_feed_sync import FeedCalls
from restante.client.joint_sync import JointCalls
from restante.client.link import Order
from restante.client.live_socket_sync import SyncSocketDoor
from restante.client.options import Retrying, Terms
from restante.model.answers import (
    BundleAnswer,
    Dequeued,
    Explanation,
    HistoryPage,
    PartitionStatus,
    ProducerPage,
    ProducerState,
    Receipt,
    RecipientPage,
)
from restante.model.message import Message, State
from restante.model.producer import ProducerNumbers
from restante.wire.publish import Encoded, encode_publish

T = TypeVar("T")


class HttpLink(BatchCalls, ConsignmentCalls, FeedCalls):
    """Calls may come from any thread; each takes a connection of the pool for itself."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._closing = threading.Event()
        builder = SyncClientBuilder()
        self._pool = [configured(builder, terms.address, connect_seconds=terms.timeout).build()]
        """One client, shared with the links made of this one; none when they are closed, for it holds on to connections."""
        self._joint = JointCalls(self._acknowledge)

    def _run(self, dialogue: Dialogue[T]) -> T:
        reply: Any = None
        while True:
            try:
                step = dialogue.send(reply)
            except StopIteration as done:
                answer: T = done.value
                return answer
            if isinstance(step, Request):
                reply = self._exchange(step)
            elif isinstance(step, Work):
                reply = step.function()
            else:
                assert isinstance(step, Pause)
                self._pause(step.seconds)
                reply = None

    def _exchange(self, request: Request) -> Reply:
        if self._closing.is_set():
            raise closed()
        if request.timeout > self._terms.timeout and threading.current_thread() is threading.main_thread():
            return self._interruptibly(request)
        return self._send(request)

    def _interruptibly(self, request: Request) -> Reply:
        """A long wait for the hub, that Ctrl-C ends at once: it goes on in a thread that nobody waits for."""
        outcome: Future[Reply] = Future()

        def send() -> None:
            try:
                outcome.set_result(self._send(request))
            except BaseException as error:  # noqa: BLE001  # whatever it is, it belongs to the caller
                outcome.set_exception(error)

        threading.Thread(target=send, name="restante-wait", daemon=True).start()
        return outcome.result()

    def _send(self, request: Request) -> Reply:
        address = self._terms.address
        try:
            builder = self._pool[0].request(request.method, address.url + request.target)
            response = filled(builder, request, address).build().send()
            return response_of(response, response.bytes())
        except PyreqwestError as error:
            return failure_of(error, request)
        except IndexError as error:
            raise closed() from error

    def _pause(self, seconds: float) -> None:
        if self._closing.wait(seconds):
            raise closed()

    def with_retrying(self, retrying: Retrying) -> HttpLink:
        """A link over the same connections, with other patience. Closing one closes both."""
        other = copy(self)
        other._terms = replace(self._terms, retrying=retrying)  # noqa: SLF001 - a copy of itself
        other._joint = JointCalls(other._acknowledge)  # noqa: SLF001 - a copy of itself
        return other

    def frames(self) -> FrameLink:
        """A link of its own to the same hub, for parcels over one web socket."""
        return FrameLink(self._terms)

    def encode(self, sent: object) -> Encoded:
        """What a publish would send. It takes that in place of the messages."""
        return encode_publish(sent, now_ms=self._terms.now_ms(), random=self._terms.random)

    def publish(
        self,
        sent: object,
        *,
        partition: int | None = None,
        producer: ProducerNumbers | None = None,
        batch: str | None = None,
    ) -> Receipt:
        dialogue = protocol.publish(self._terms, sent, partition=partition, producer=producer, batch=batch)
        return self._run(dialogue)

    def open_link(
        self,
        partition: int,
        *,
        producer_group: int | None = None,
        owner_level: int | None = None,
        last_published_sequence_number: int | None = None,
    ) -> ProducerState:
        return self._run(
            protocol.open_link(
                self._terms,
                partition,
                producer_group=producer_group,
                owner_level=owner_level,
                last_published_sequence_number=last_published_sequence_number,
            )
        )

    def producer_state(self, partition: int, producer_group: int) -> ProducerState:
        return self._run(protocol.producer_state(self._terms, partition, producer_group))

    def producer_states(self, partition: int, *, limit: int | None = None, after: str | None = None) -> ProducerPage:
        return self._run(protocol.producer_states(self._terms, partition, limit=limit, after=after))

    def peek(
        self,
        recipient: str,
        *,
        origins: Collection[str] = (),
        origin_groups: Collection[str] = (),
        bundle_id: str | None = None,
        format: str | None = None,  # the contract's name
        max_messages: int | None = None,
        max_weight: int | None = None,
        wait: float = 0,
    ) -> BundleAnswer | None:
        return self._run(
            protocol.peek(
                self._terms,
                recipient,
                origins=origins,
                origin_groups=origin_groups,
                bundle_id=bundle_id,
                format=format,
                max_messages=max_messages,
                max_weight=max_weight,
                wait=wait,
            )
        )

    def dequeue(self, recipient: str, bundle_id: str) -> Dequeued:
        return self._run(protocol.dequeue(self._terms, recipient, bundle_id))

    def explain(
        self, recipient: str, *, origins: Collection[str] = (), origin_groups: Collection[str] = ()
    ) -> Explanation:
        return self._run(protocol.explain(self._terms, recipient, origins=origins, origin_groups=origin_groups))

    def history(
        self,
        recipient: str,
        *,
        after: int | None = None,
        before: int | None = None,
        state: State | None = None,
        limit: int | None = None,
        live_gap: int | None = None,
    ) -> HistoryPage:
        asked = protocol.history(
            self._terms, recipient, after=after, before=before, state=state, limit=limit, live_gap=live_gap
        )
        return self._run(asked)

    def find(self, recipient: str, message_id: str) -> Message:
        return self._run(protocol.find(self._terms, recipient, message_id))

    def withdraw(self, recipient: str, message_id: str) -> None:
        self._run(protocol.withdraw(self._terms, recipient, message_id))

    def set_aside(self, recipient: str, message_id: str) -> None:
        self._run(protocol.set_aside(self._terms, recipient, message_id))

    def release(self, recipient: str, message_id: str) -> None:
        self._run(protocol.release(self._terms, recipient, message_id))

    def purge(
        self,
        recipient: str,
        *,
        origin: str | None = None,
        kind: str | None = None,
        before: datetime | None = None,
        dry_run: bool = False,
    ) -> int:
        return self._run(
            protocol.purge(self._terms, recipient, origin=origin, kind=kind, before=before, dry_run=dry_run)
        )

    def erase(self, recipient: str, *, dry_run: bool = False) -> int:
        return self._run(protocol.erase(self._terms, recipient, dry_run=dry_run))

    def recipients(
        self, *, order: Order = "waiting", limit: int | None = None, after: str | None = None
    ) -> RecipientPage:
        return self._run(protocol.recipients(self._terms, order=order, limit=limit, after=after))

    def partitions(self) -> tuple[PartitionStatus, ...]:
        return self._run(protocol.partitions(self._terms))

    def partition_of(self, recipient: str) -> int:
        return self._run(protocol.partition_of(self._terms, recipient))

    def live(self, recipient: str, *, client: str | None = None) -> SyncSocketDoor:
        """The way to a mailbox that is followed. Nothing is connected yet."""
        return SyncSocketDoor(self._terms, recipient, client)

    def file(self) -> int:
        return self._run(protocol.maintain(self._terms, "file"))

    def expire(self) -> int:
        return self._run(protocol.maintain(self._terms, "expire"))

    def retain(self) -> int:
        return self._run(protocol.maintain(self._terms, "retain"))

    def close(self) -> None:
        self._closing.set()
        while self._pool:
            self._pool.pop().close()

"""`restante.ProducerClient`: parcels, numbered so that they may be sent again, for programs that wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from restante.calls.mailboxes import ListPartitions
from restante.calls.producers import OpenLink, ReadProducer
from restante.client.batches.batch_view import BatchName, batch_id_of
from restante.client.producers import lanes, numbered_sends
from restante.client.producers.configuration import PartitionPublishingConfiguration, PartitionPublishingProperties
from restante.client.producers.lanes import ONE_ATTEMPT, Configurations, Lanes
from restante.client.producers.numbered_sends import NumberedPublish, Prepare, ProducerStep, Producing
from restante.client.publishing.parcel import Parcel
from restante.client.surface.connect import connect
from restante.client.surface.sync import Hub
from restante.client.transport.exchange import Pause
from restante.client.transport.http_sync import HttpLink
from restante.client.transport.link import Link
from restante.client.transport.turns import WaitingLine
from restante.errors import InvalidRequest, RestanteError
from restante.model.mailboxes.answers import Receipt

T = TypeVar("T")


class ProducerClient:
    """Publishes parcels. Calls may come from any thread; use it in a `with` statement, or close it."""

    def __init__(  # noqa: PLR0913 - all that a producer may be told
        self,
        hub: Hub | str,
        *,
        token: str | None = None,
        enable_idempotent_partitions: bool = False,
        partition_config: Configurations | None = None,
        pipelined: bool = False,
        retry_total: int = lanes.RETRY_TOTAL,
        retry_backoff_factor: float = lanes.RETRY_BACKOFF_FACTOR,
        retry_backoff_max: float = lanes.RETRY_BACKOFF_MAX,
        retry_seconds: float = lanes.RETRY_SECONDS,
    ) -> None:
        """`hub` is an open hub, in process or connected, or the address of one; then `token` opens its door.

        A send without an answer is tried again `retry_total` times, after `retry_backoff_factor` seconds, then twice as
        long each time up to `retry_backoff_max`, but not after `retry_seconds`. Over a network, `pipelined` sends
        parcels for different partitions over one web socket.
        """
        retrying = lanes.retrying_of(
            retry_total=retry_total, factor=retry_backoff_factor, maximum=retry_backoff_max, seconds=retry_seconds
        )
        self._lanes = Lanes(enabled=enable_idempotent_partitions, configurations=partition_config, retrying=retrying)
        self._turns: dict[int, WaitingLine] = {}
        self._closing = threading.Event()
        self._owned: list[Callable[[], None]] = []
        self._take(hub, token, pipelined=pipelined)

    def _take(self, hub: Hub | str, token: str | None, *, pipelined: bool) -> None:
        if isinstance(hub, str):
            hub = connect(hub, token=token)
            self._owned.append(hub.close)
        elif token is not None:
            raise InvalidRequest("A token belongs to an address. A hub that is open has its own.")
        if not isinstance(hub, Hub):
            raise lanes.no_hub(hub, twin="restante.aio.ProducerClient")
        self._hub_link: Link = hub.link
        self._link = self._hub_link
        self._encode: Callable[[object], object] = _unchanged
        self._frames: Any = None
        if isinstance(hub.link, HttpLink):
            link = hub.link.with_retrying(ONE_ATTEMPT)
            self._link, self._encode = link, link.encode
            if pipelined:
                self._frames = link.frames()
                self._owned.insert(0, self._frames.close)

    def create_parcel(
        self,
        partition: int | None = None,
        *,
        max_size_in_bytes: int | None = None,
        batch: BatchName | None = None,
    ) -> Parcel:
        """An empty parcel for a partition. Its messages become items of the batch, if one is named."""
        return self._lanes.create_parcel(partition, max_size_in_bytes, batch)

    def send_parcel(self, parcel: Parcel) -> Receipt:
        """Store a parcel: all of it, or nothing."""
        self._lanes.check_open()
        self._lanes.check_parcel(parcel)
        with parcel.held():
            if not self._lanes.enabled:
                return self._lead(numbered_sends.send_plainly(parcel, self._lanes.patience))
            lane = self._lanes.lane(parcel.partition)
            with self._turn(lane.partition):
                return self._lead(numbered_sends.send(lane, parcel, self._lanes.patience))

    def send_messages(
        self, messages: object, *, partition: int | None = None, batch: BatchName | None = None
    ) -> Receipt:
        """Store a message, a sequence of them, or an Arrow table or frame: all of it, or nothing."""
        self._lanes.check_open()
        batch_id = batch_id_of(batch)
        if not self._lanes.enabled:
            return self._lead(numbered_sends.send_sent_plainly(messages, partition, self._lanes.patience, batch_id))
        lane = self._lanes.lane(partition)
        with self._turn(lane.partition):
            return self._lead(numbered_sends.send_sent(lane, messages, self._lanes.patience, batch_id))

    def get_partition_publishing_properties(self, partition: int) -> PartitionPublishingProperties:
        """How this producer stands in a partition; read from the hub when first asked."""
        self._lanes.check_open()
        if not self._lanes.enabled:
            return self._lanes.unnumbered(partition)
        lane = self._lanes.lane(partition)
        with self._turn(lane.partition):
            return self._lead(numbered_sends.describing(lane, self._lanes.patience))

    def partition_count(self) -> int:
        """How many partitions the hub has."""
        self._lanes.check_open()
        return len(self._hub_link.call(ListPartitions()))

    def state(self) -> dict[int, PartitionPublishingConfiguration]:
        """What a later producer needs to go on, as its `partition_config`. Nothing is asked of the hub."""
        return self._lanes.state()

    def close(self) -> None:
        """Let sends that are under way end, and refuse all others."""
        self._lanes.closed = True
        self._closing.set()
        for turns in list(self._turns.values()):
            with turns:
                pass
        while self._owned:
            self._owned.pop(0)()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _turn(self, partition: int) -> WaitingLine:
        found = self._turns.get(partition)
        return found if found is not None else self._turns.setdefault(partition, WaitingLine())

    def _lead(self, dialogue: Producing[T]) -> T:
        """Carry a dialogue out. If it ends before its time, it is told, for a parcel may be on its way."""
        reply: Any = None
        try:
            self._lanes.check_open()
            while True:
                reply = self._perform(dialogue.send(reply))
        except StopIteration as done:
            answer: T = done.value
            return answer
        finally:
            dialogue.close()

    def _perform(self, step: ProducerStep) -> object:
        """The usual steps first: every message comes by here."""
        try:
            if isinstance(step, NumberedPublish):
                link = self._link if self._frames is None or step.partition is None else self._frames
                return link.publish(step.prepared, partition=step.partition, producer=step.numbers, batch=step.batch)
            if isinstance(step, Prepare):
                step.parcel.identify(copied=not self._lanes.enabled)
                return self._encode(step.parcel.content)
            if isinstance(step, OpenLink | ReadProducer):
                return self._link.call(step)
        except RestanteError as error:
            return error
        return self._closing.wait(step.seconds) if isinstance(step, Pause) else step.function()


def _unchanged(content: object) -> object:
    """A hub in this process takes messages and columns as they are."""
    return content

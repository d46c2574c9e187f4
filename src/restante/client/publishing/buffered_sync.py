# Generated from `buffered_async.py` by `make generate` (tools/generate_sync.py): change that module, not this one.
"""`BufferedProducer` for programs that wait gathers single messages into parcels; `BufferCarrier` carries them."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from restante import limits
from restante.client.batches.batch_view import BatchName, batch_id_of
from restante.client.producers import lanes
from restante.client.producers.configuration import PartitionPublishingConfiguration
from restante.client.producers.lanes import Configurations
from restante.client.producers.producer_sync import ProducerClient
from restante.client.publishing.buffer_bounds import BufferBounds, check_callbacks
from restante.client.publishing.buffer_carrier_sync import BufferCarrier
from restante.client.publishing.buffer_doors_sync import OnError, OnSuccess
from restante.client.surface.connect import connect
from restante.client.surface.sync import Hub


class BufferedProducer(BufferCarrier):
    """Takes single messages and publishes them in parcels, per partition (and so per recipient) in the order enqueued.

    ```python
    with restante.BufferedProducer("http://127.0.0.1:8470", on_error=report) as producer:
        for order in orders:
            producer.enqueue(restante.Message(recipient=order.customer, data=order.text))
    ```

    `enqueue` waits only when the buffer is full. Callbacks report the outcome of the messages. Calls may come
    from any thread. A message that is refused does not keep the others of its parcel from being stored. A
    message that failed may be enqueued again: it keeps its id, and is stored once. When another producer has taken over a
    partition (`ProducerDisconnected`), all further messages for it fail.

    `hub` is an open hub, in process or connected, or an address; `token` goes with an address. If `batch` is named, the
    messages become its items; seal it after closing the producer, not before. A parcel is sent when it has
    `max_parcel_messages` messages or `max_parcel_bytes` bytes, or when its first message has waited `max_wait_time` seconds
    for others. At most `max_concurrent_sends` parcels are under way, one for each partition. The buffer holds at most
    `max_buffer_length` messages of `max_buffer_bytes` bytes. The other options are those of `ProducerClient`. A parcel of
    unknown outcome is retried by them before it fails.

    `on_success(messages, partition)` and `on_error(messages, partition, error)` are called by the thread that sent
    the parcel: in order within a partition, concurrently for different partitions.
    An error that a callback raises is logged, and has no other effect. A callback may enqueue, and then never waits for
    room, but it cannot flush or close. A slow callback holds up its partition. Without `on_error`, failures are logged.

    Leaving the `with` statement flushes. On Ctrl-C, or another exit of the program, unsent messages are dropped.
    """

    def __init__(  # noqa: PLR0913 - an option each
        self,
        hub: Hub | str,
        *,
        token: str | None = None,
        on_success: OnSuccess | None = None,
        on_error: OnError | None = None,
        batch: BatchName | None = None,
        max_wait_time: float = limits.BUFFER_WAIT_SECONDS_DEFAULT,
        max_buffer_length: int = limits.BUFFER_MESSAGES_DEFAULT,
        max_buffer_bytes: int = limits.BUFFER_BYTES_DEFAULT,
        max_parcel_messages: int = limits.BUFFER_PARCEL_MESSAGES_DEFAULT,
        max_parcel_bytes: int = limits.PARCEL_BYTES_DEFAULT,
        max_concurrent_sends: int = limits.BUFFER_SENDS_DEFAULT,
        enable_idempotent_partitions: bool = True,
        partition_config: Configurations | None = None,
        pipelined: bool = False,
        retry_total: int = lanes.RETRY_TOTAL,
        retry_backoff_factor: float = lanes.RETRY_BACKOFF_FACTOR,
        retry_backoff_max: float = lanes.RETRY_BACKOFF_MAX,
        retry_seconds: float = lanes.RETRY_SECONDS,
    ) -> None:
        check_callbacks(on_success, on_error, awaited=False)
        batch_id = batch_id_of(batch)
        bounds = BufferBounds(
            max_wait_time=max_wait_time,
            max_buffer_length=max_buffer_length,
            max_buffer_bytes=max_buffer_bytes,
            max_parcel_messages=max_parcel_messages,
            max_parcel_bytes=max_parcel_bytes,
            max_concurrent_sends=max_concurrent_sends,
        )
        owns_hub = isinstance(hub, str)
        open_hub = connect(hub, token=token) if isinstance(hub, str) else hub
        producer = ProducerClient(
            open_hub,
            token=None if owns_hub else token,
            enable_idempotent_partitions=enable_idempotent_partitions,
            partition_config=partition_config,
            pipelined=pipelined,
            retry_total=retry_total,
            retry_backoff_factor=retry_backoff_factor,
            retry_backoff_max=retry_backoff_max,
            retry_seconds=retry_seconds,
        )
        super().__init__(
            open_hub,
            producer,
            bounds,
            owns_hub=owns_hub,
            batch=batch_id,
            on_success=on_success,
            on_error=on_error,
        )

    def state(self) -> dict[int, PartitionPublishingConfiguration]:
        """The state of each partition, to be given as `partition_config` after a restart.

        ```python
        saved = producer.state()
        ```
        """
        return self._producer.state()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(flush=error is None or isinstance(error, Exception))

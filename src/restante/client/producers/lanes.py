"""The parts that both producer clients share: their lanes, their retrying, and the checks before anything is sent."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

from restante import limits
from restante.client.batches.batch_view import BatchName
from restante.client.producers.configuration import (
    PartitionPublishingConfiguration,
    PartitionPublishingProperties,
    check_partition,
    checked_configuration,
)
from restante.client.producers.lane import Lane
from restante.client.producers.numbered_sends import SendPatience
from restante.client.publishing.parcel import Parcel
from restante.client.transport.options import Retrying
from restante.errors import InvalidOperation, InvalidRequest

_RETRYING = Retrying()

RETRY_TOTAL = limits.PRODUCER_RETRIES
RETRY_BACKOFF_FACTOR = _RETRYING.first_pause
RETRY_BACKOFF_MAX = _RETRYING.longest_pause
RETRY_SECONDS = _RETRYING.seconds

ONE_ATTEMPT = Retrying(times=0)
"""The retrying of the links below a producer, which counts attempts itself."""


def retrying_of(*, retry_total: int, factor: float, maximum: float, seconds: float) -> Retrying:
    """The `Retrying` for the arguments of a producer."""
    try:
        return Retrying(times=retry_total, seconds=seconds, first_pause=factor, longest_pause=maximum)
    except InvalidRequest as error:
        names = (
            "retry_total (times), retry_backoff_factor (first pause), retry_backoff_max (longest pause), retry_seconds"
        )
        raise InvalidRequest(f"{error.message} The arguments of a producer are {names}.") from error


def no_hub(given: object, *, twin: str) -> InvalidRequest:
    """The error for an argument that is no hub, or a hub of the other surface."""
    kind = type(given)
    if kind.__module__.startswith(("restante.client.", "restante.assembly")):
        return InvalidRequest(
            f"This is a hub for the other kind of program: {kind.__module__}.{kind.__name__}. Use {twin} with it, and `await` "
            "or enter an asynchronous hub first."
        )
    return InvalidRequest(f"Give a hub, or its address, not {kind.__name__}.")


Configuration = PartitionPublishingConfiguration | Mapping[str, int | None]
Configurations = Mapping[int, Configuration] | Mapping[str, Configuration]


class Lanes:
    """The lanes of one producer, by partition. `enabled` says whether it numbers at all."""

    def __init__(self, *, enabled: bool, configurations: Configurations | None, retrying: Retrying) -> None:
        if not isinstance(enabled, bool):
            raise InvalidRequest(f"enable_idempotent_partitions is true or false, not {enabled!r}.")
        self.enabled = enabled
        self.patience = SendPatience(retrying=retrying, clock=time.monotonic, chance=random.random)
        self.closed = False
        given = checked_configuration(configurations, enabled=enabled)
        self._lanes = {partition: Lane(partition, own) for partition, own in given.items()}

    def lane(self, partition: int | None) -> Lane:
        """The lane of a partition, created on first use. Raises if no partition is given."""
        if partition is None:
            raise InvalidOperation(
                "Numbered publishing needs a partition: partition=…. `hub.partition_of(recipient)` says which."
            )
        found = self._lanes.get(partition)
        if found is not None:
            return found
        check_partition(partition)
        return self._lanes.setdefault(partition, Lane(partition, PartitionPublishingConfiguration()))

    def create_parcel(self, partition: int | None, max_size_in_bytes: int | None, batch: BatchName | None) -> Parcel:
        self.check_open()
        if self.enabled:
            self.lane(partition)
        elif partition is not None:
            check_partition(partition)
        return Parcel(partition, max_size_in_bytes=max_size_in_bytes, batch=batch)

    def check_open(self) -> None:
        if self.closed:
            raise InvalidOperation("The producer has been closed. Make another one.")

    def check_parcel(self, parcel: object) -> None:
        if not isinstance(parcel, Parcel):
            raise InvalidRequest(
                f"send_parcel takes a Parcel, not {type(parcel).__name__}; send messages with send_messages."
            )

    def unnumbered(self, partition: int) -> PartitionPublishingProperties:
        """The properties of a partition for a producer that does not number."""
        check_partition(partition)
        return PartitionPublishingProperties(partition=partition, is_idempotent_publishing_enabled=False)

    def state(self) -> dict[int, PartitionPublishingConfiguration]:
        """The configurations of the lanes that have a group; the others have nothing to go on from."""
        lanes = list(self._lanes.items())
        return {partition: lane.configuration for partition, lane in lanes if lane.group is not None}

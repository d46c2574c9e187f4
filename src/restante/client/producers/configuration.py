"""How a producer numbers what it publishes to a partition: what it is told at its creation, and what it shows."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from restante.errors import InvalidRequest
from restante.model.producers.producer import check_group, check_level, check_sequence


class PartitionPublishingConfiguration(msgspec.Struct, frozen=True):
    """The state that a producer begins with in a partition. What is left out is taken from the hub."""

    producer_group_id: int | None = None
    """Without it the hub opens a new producer group."""
    owner_level: int | None = None
    """A higher one than before takes the group over, and fences off who had it."""
    starting_sequence_number: int | None = None
    """The last number that was published: numbering goes on after it."""

    def __post_init__(self) -> None:
        if self.producer_group_id is not None:
            check_group(self.producer_group_id)
        if self.owner_level is not None:
            check_level(self.owner_level)
        if self.starting_sequence_number is not None:
            check_sequence("starting_sequence_number", self.starting_sequence_number)


class PartitionPublishingProperties(msgspec.Struct, frozen=True, kw_only=True):
    """How a producer stands in a partition."""

    partition: int
    is_idempotent_publishing_enabled: bool
    producer_group_id: int | None = None
    owner_level: int | None = None
    last_published_sequence_number: int | None = None


def checked_configuration(given: object, *, enabled: bool) -> dict[int, PartitionPublishingConfiguration]:
    """The configuration of each partition that has one."""
    if given is None:
        return {}
    if not enabled:
        raise InvalidRequest("partition_config is for numbered publishing: set enable_idempotent_partitions=True.")
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"partition_config maps partitions to configurations; it is {type(given).__name__}.")
    found: dict[int, PartitionPublishingConfiguration] = {}
    for partition, own in given.items():
        number = _partition(partition)
        if number in found:
            raise InvalidRequest(f"partition_config names partition {number} twice.")
        found[number] = _configuration(number, own)
    return found


def _partition(given: object) -> int:
    """A partition, or its number as text: azure-eventhub names partitions so, and so does JSON."""
    number = int(given) if isinstance(given, str) and given.isascii() and given.isdecimal() else given
    check_partition(number)
    assert isinstance(number, int)
    return number


def _configuration(partition: int, given: object) -> PartitionPublishingConfiguration:
    """The configuration as it is, or made of a plain dict."""
    if isinstance(given, PartitionPublishingConfiguration):
        return given
    if not isinstance(given, Mapping):
        raise InvalidRequest(
            f"partition_config of partition {partition} must be a PartitionPublishingConfiguration or a dict, "
            f"not {type(given).__name__}."
        )
    known = PartitionPublishingConfiguration.__struct_fields__
    for name in given:
        if name not in known:
            raise InvalidRequest(
                f"partition_config of partition {partition} has {name!r}: it may have {', '.join(known)}."
            )
    return PartitionPublishingConfiguration(**given)


def check_partition(partition: object) -> None:
    if isinstance(partition, bool) or not isinstance(partition, int) or partition < 0:
        raise InvalidRequest(f"A partition is a number from 0, not {partition!r}.")

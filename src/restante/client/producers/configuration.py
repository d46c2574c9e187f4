"""How a producer numbers its messages in a partition: the configuration it is given, and the properties it shows."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from restante.errors import InvalidRequest
from restante.model.producers.producer import check_group, check_level, check_sequence


class PartitionPublishingConfiguration(msgspec.Struct, frozen=True):
    """The state with which a producer begins in a partition. The hub supplies what is left out."""

    producer_group_id: int | None = None
    """The producer group; None lets the hub open a new one."""
    owner_level: int | None = None
    """The owner level. A higher one than before takes the group over, and fences off its previous owner."""
    starting_sequence_number: int | None = None
    """The last published number; numbering continues after it."""

    def __post_init__(self) -> None:
        if self.producer_group_id is not None:
            check_group(self.producer_group_id)
        if self.owner_level is not None:
            check_level(self.owner_level)
        if self.starting_sequence_number is not None:
            check_sequence("starting_sequence_number", self.starting_sequence_number)


class PartitionPublishingProperties(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a producer in a partition."""

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
    """A partition number, also given as text, because azure-eventhub and JSON keys name partitions by texts."""
    number = int(given) if isinstance(given, str) and given.isascii() and given.isdecimal() else given
    check_partition(number)
    assert isinstance(number, int)
    return number


def _configuration(partition: int, given: object) -> PartitionPublishingConfiguration:
    """The configuration itself, or one made from a plain dict."""
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

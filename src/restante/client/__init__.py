"""The client: the surface that programs see, in process and over a network, and producers that number what they send."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from restante.client.producers.configuration import PartitionPublishingConfiguration, PartitionPublishingProperties
    from restante.client.producers.producer_sync import ProducerClient
    from restante.client.publishing.buffered_sync import BufferedProducer
    from restante.client.publishing.parcel import Parcel

__all__ = [
    "BufferedProducer",
    "Parcel",
    "PartitionPublishingConfiguration",
    "PartitionPublishingProperties",
    "ProducerClient",
]

_HOMES = {
    "BufferedProducer": "publishing.buffered_sync",
    "Parcel": "publishing.parcel",
    "PartitionPublishingConfiguration": "producers.configuration",
    "PartitionPublishingProperties": "producers.configuration",
    "ProducerClient": "producers.producer_sync",
}


def __getattr__(name: str) -> object:
    """Import what is asked for when it is asked for: many programs number nothing."""
    if name in _HOMES:
        return getattr(import_module(f"restante.client.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'restante.client' has no attribute {name!r}")

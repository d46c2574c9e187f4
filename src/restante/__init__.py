"""A durable mailbox hub: it holds each recipient's messages in order until they collect them.

```python
import restante

with restante.open("./data") as hub:
    hub.producer.send(restante.Message(recipient="alice", data={"text": "hello"}))
    for bundle in hub.recipient("alice").bundles(idle=0):
        print([message.data for message in bundle.messages])
        bundle.dequeue()
```

`restante.connect("http://127.0.0.1:8470")` gives the same over the network; `restante.aio` has both for asynchronous
programs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from restante.version import __version__ as __version__

if TYPE_CHECKING:
    from restante.assembly import open  # the public name
    from restante.client.producers.configuration import PartitionPublishingConfiguration, PartitionPublishingProperties
    from restante.client.producers.producer_sync import ProducerClient
    from restante.client.publishing.buffered_sync import BufferedProducer
    from restante.client.publishing.parcel import Parcel
    from restante.client.surface.connect import connect
    from restante.client.transport.options import Retrying
    from restante.model.actions.wanted_action import WantedAction
    from restante.model.batches.batch_answers import ItemRange, Webhook
    from restante.model.consignments.consignment_answers import BatchWish, ConsignmentState, Winner
    from restante.model.jobs.job_answers import JobReport, JobRunState, RunTable
    from restante.model.publishing.message import Message, State
    from restante.ports.content import Content, ContentRequest, DequeuedNotice, OriginPort
    from restante.settings import (
        ActionSettings,
        BoundSettings,
        GroupSettings,
        HealthBounds,
        HealthSettings,
        LiveSettings,
        OriginGroupSettings,
        OriginSettings,
        Settings,
        WebhookSettings,
    )

__all__ = [
    "ActionSettings",
    "BatchWish",
    "BoundSettings",
    "BufferedProducer",
    "ConsignmentState",
    "Content",
    "ContentRequest",
    "DequeuedNotice",
    "GroupSettings",
    "HealthBounds",
    "HealthSettings",
    "ItemRange",
    "JobReport",
    "JobRunState",
    "LiveSettings",
    "Message",
    "OriginGroupSettings",
    "OriginPort",
    "OriginSettings",
    "Parcel",
    "PartitionPublishingConfiguration",
    "PartitionPublishingProperties",
    "ProducerClient",
    "Retrying",
    "RunTable",
    "Settings",
    "State",
    "WantedAction",
    "Webhook",
    "WebhookSettings",
    "Winner",
    "connect",
    "open",
]

_HOMES = {
    "assembly": ("open",),
    "client.publishing.buffered_sync": ("BufferedProducer",),
    "client.producers.configuration": ("PartitionPublishingConfiguration", "PartitionPublishingProperties"),
    "client.surface.connect": ("connect",),
    "client.transport.options": ("Retrying",),
    "client.publishing.parcel": ("Parcel",),
    "client.producers.producer_sync": ("ProducerClient",),
    "model.actions.wanted_action": ("WantedAction",),
    "model.batches.batch_answers": ("ItemRange", "Webhook"),
    "model.consignments.consignment_answers": ("BatchWish", "ConsignmentState", "Winner"),
    "model.jobs.job_answers": ("JobReport", "JobRunState", "RunTable"),
    "model.publishing.message": ("Message", "State"),
    "ports.content": ("Content", "ContentRequest", "DequeuedNotice", "OriginPort"),
    "settings": (
        "ActionSettings",
        "BoundSettings",
        "GroupSettings",
        "HealthBounds",
        "HealthSettings",
        "LiveSettings",
        "OriginGroupSettings",
        "OriginSettings",
        "Settings",
        "WebhookSettings",
    ),
}


def __dir__() -> list[str]:
    return [*__all__, "__version__", "aio"]


def __getattr__(name: str) -> object:
    """Import what is asked for when it is asked for: `restante --help` should not wait for Arrow."""
    if name == "aio":
        return import_module("restante.aio")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"restante.{home}"), name)
    raise AttributeError(f"module 'restante' has no attribute {name!r}")

"""A durable mailbox hub: it holds each recipient's messages in order until they collect them.

import restante

with restante.open("./data") as hub:
hub.producer.send(restante.Message(recipient="alice", data={"text": "hello"}))
for bundle in hub.recipient("alice").bundles(idle=0):
print([message.data for message in bundle.messages])
bundle.dequeue()
"""

from __future__ import annotations

from restante.assembly import open  # the public name
from restante.model.message import Message, State
from restante.ports.content import Content, ContentRequest, DequeuedNotice, OriginPort
from restante.settings import OriginGroupSettings, OriginSettings, Settings

__version__ = "0.1.0"

__all__ = [
    "Content",
    "ContentRequest",
    "DequeuedNotice",
    "Message",
    "OriginGroupSettings",
    "OriginPort",
    "OriginSettings",
    "Settings",
    "State",
    "open",
]

"""Messages for a recipient that other subjects keep aside: accepted, and not in the mailbox yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from restante.hub.engine.core import Core, MailboxAddress


@dataclass(slots=True)
class KeptAside:
    """The subjects that keep messages aside."""

    counters: list[Callable[[MailboxAddress], int]] = field(default_factory=list)
    """Functions of a mailbox: how many messages a subject keeps aside for it."""


def count_aside(core: Core, address: MailboxAddress) -> int:
    return sum(count(address) for count in core.memory(KeptAside).counters)

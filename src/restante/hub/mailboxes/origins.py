"""The origins of a hub: where content by claim check is asked for, and who is told of dequeued bundles."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from restante import limits
from restante.hub.engine.core import Core
from restante.hub.mailboxes.content_questions import ContentQuestions
from restante.ports.content import OriginPort


@dataclass(slots=True)
class Origins:
    """The ports of the origins that have one, by the names of the origins."""

    ports: Mapping[str, OriginPort] = field(default_factory=dict)
    content_seconds: float = limits.CONTENT_SECONDS_MAX
    outbox_waits: threading.Event = field(default_factory=threading.Event)
    """Set while the outbox may hold bundles whose origins are to be told."""

    questions: ContentQuestions = field(default_factory=ContentQuestions)
    calls: int = 0
    """Calls to origins so far, for content or to tell of a dequeued bundle; and how many failed."""
    calls_failed: int = 0

    def count(self, *, failed: bool) -> None:
        """Count a call for health, which asks whether there were any, not for the exact number: threads may count at once."""
        self.calls += 1
        self.calls_failed += failed

    def claim_checks(self) -> frozenset[str]:
        return frozenset(name for name, port in self.ports.items() if port.content is not None)


def claim_check_origins(core: Core) -> frozenset[str]:
    """The origins whose messages may come without data, because the hub can ask for it."""
    return core.memory(Origins).claim_checks()

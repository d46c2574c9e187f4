"""The origins of a hub, which deliver content by claim check and get notices of dequeued bundles."""

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
    """The ports of the origins that have one, by name of the origin."""

    ports: Mapping[str, OriginPort] = field(default_factory=dict)
    content_seconds: float = limits.CONTENT_SECONDS_MAX
    outbox_waits: threading.Event = field(default_factory=threading.Event)
    """Set while the outbox may have notices to deliver."""

    questions: ContentQuestions = field(default_factory=ContentQuestions)
    calls: int = 0
    """Calls to origins so far, for content and for notices; `calls_failed` of them have failed."""
    calls_failed: int = 0

    def count(self, *, failed: bool) -> None:
        """Count a call for health. Threads may lose counts, which is harmless: health only asks whether there were any."""
        self.calls += 1
        self.calls_failed += failed

    def claim_checks(self) -> frozenset[str]:
        return frozenset(name for name, port in self.ports.items() if port.content is not None)


def claim_check_origins(core: Core) -> frozenset[str]:
    """The origins whose messages may have no data, because the hub can ask the origin for it."""
    return core.memory(Origins).claim_checks()

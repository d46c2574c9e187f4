"""The origins of a hub, which deliver content by claim check and get notices of dequeued bundles."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from restante import limits
from restante.hub.engine.core import Core
from restante.ports.content import Content, OriginPort


class ContentQuestions:
    """The bundles whose content is currently being asked for: concurrent peeks of one share one question and its answer."""

    __slots__ = ("_lock", "_under_way")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[bytes, Future[Content]] = {}

    def once(self, bundle: bytes, ask: Callable[[], Content]) -> Content:
        """Call `ask`, or wait for a caller that is already asking for this bundle; all get the same answer or error."""
        with self._lock:
            first = bundle not in self._under_way
            answer = self._under_way.setdefault(bundle, Future())
        try:
            if first:
                self._lead(bundle, answer, ask)
            return answer.result()
        finally:
            del answer  # The error's traceback holds this frame, and the future holds the error: this breaks the cycle.

    def _lead(self, bundle: bytes, answer: Future[Content], ask: Callable[[], Content]) -> None:
        """Ask, and end the question before callers get the answer, so that they can ask again after a failure."""
        try:
            content = ask()
        except BaseException as error:  # noqa: BLE001  # handed to all callers
            self._end(bundle)
            answer.set_exception(error)
            del answer
        else:
            self._end(bundle)
            answer.set_result(content)

    def _end(self, bundle: bytes) -> None:
        with self._lock:
            del self._under_way[bundle]


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

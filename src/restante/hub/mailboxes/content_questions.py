"""Questions to origins under way: concurrent peeks of one bundle share one question and its answer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock

from restante.ports.content import Content


class ContentQuestions:
    """The bundles whose content is currently being asked for."""

    __slots__ = ("_lock", "_under_way")

    def __init__(self) -> None:
        self._lock = Lock()
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

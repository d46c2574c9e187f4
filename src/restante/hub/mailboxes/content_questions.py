"""Questions to origins that are under way: peeks of the same bundle ask once, and get the one answer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock

from restante.ports.content import Content


class ContentQuestions:
    """The bundles whose content is being asked for."""

    __slots__ = ("_lock", "_under_way")

    def __init__(self) -> None:
        self._lock = Lock()
        self._under_way: dict[bytes, Future[Content]] = {}

    def once(self, bundle: bytes, ask: Callable[[], Content]) -> Content:
        """Ask, or wait for who asks for the same bundle already; gives the answer or the error of the one that asked."""
        with self._lock:
            first = bundle not in self._under_way
            answer = self._under_way.setdefault(bundle, Future())
        try:
            if first:
                self._lead(bundle, answer, ask)
            return answer.result()
        finally:
            del answer  # An error holds this frame: with the future, which holds the error, all would be kept.

    def _lead(self, bundle: bytes, answer: Future[Content], ask: Callable[[], Content]) -> None:
        """Ask. The bundle is under way no longer when callers hear of it, so what has failed may be asked for again."""
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

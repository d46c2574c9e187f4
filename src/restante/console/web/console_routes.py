"""Which page answers a request, and who may see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from restante.console.web.exchanges import ConsoleReply
from restante.console.web.visits import ConsoleVisitor, Visit

ConsoleHandler = Callable[[Visit], Awaitable[ConsoleReply]]
May = Callable[[ConsoleVisitor], bool]


class ConsoleRoute(NamedTuple):
    """One address of the console. A visitor who may not see it is refused before the hub is asked, and by the hub too."""

    method: str
    path: str
    """Below the console's own; `{name}` stands for any one segment."""
    handler: ConsoleHandler
    may: May


class FoundRoute(NamedTuple):
    """A route, and what stands in the path in place of its names."""

    route: ConsoleRoute
    place: Mapping[str, str]


class ConsoleRouter:
    """Finds routes by path and method."""

    def __init__(self, routes: Iterable[ConsoleRoute]) -> None:
        self.routes = tuple(routes)
        self._split = [(route, _split(route.path)) for route in self.routes]

    def find(self, method: str, segments: tuple[str, ...]) -> FoundRoute | None:
        for route, pattern in self._split:
            place = _matched(pattern, segments) if route.method == method else None
            if place is not None:
                return FoundRoute(route, place)
        return None


def _split(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")) if path else ()


def _matched(pattern: tuple[str, ...], segments: tuple[str, ...]) -> dict[str, str] | None:
    if len(pattern) != len(segments):
        return None
    place: dict[str, str] = {}
    for wanted, given in zip(pattern, segments, strict=True):
        if wanted.startswith("{"):
            place[wanted.strip("{}")] = given
        elif wanted != given:
            return None
    return place

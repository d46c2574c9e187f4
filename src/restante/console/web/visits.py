"""A visit: one request of one visitor, with all that a page needs to answer it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from restante.console.view.markup import Child, Markup, tag
from restante.console.web.doors import HubAsker
from restante.console.web.exchanges import ConsoleRequest
from restante.console.web.slow_answers import Remembered, SlowAnswers
from restante.errors import InvalidRequest
from restante.limits import CONSOLE_PAGE_ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping


T = TypeVar("T")


class ConsoleVisitor(msgspec.Struct, frozen=True, kw_only=True):
    """The visitor, as the hub describes the holder of the token."""

    name: str
    roles: tuple[str, ...]
    open: bool = False
    origins: tuple[str, ...] | None = None
    recipients: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    expires_at: datetime | None = None

    def has(self, *roles: str) -> bool:
        """Whether one of these roles is held. An operator may do everything."""
        return "operator" in self.roles or any(role in self.roles for role in roles)

    @property
    def sight(self) -> ConsoleVisitor:
        """A key of visitors who see the same: all operators do. Any other token may own something."""
        return OPERATORS if self.operates else self

    @property
    def operates(self) -> bool:
        return "operator" in self.roles

    @property
    def reads(self) -> bool:
        return self.has("reader")

    @property
    def looks(self) -> bool:
        """Whether a visitor may look at batches, consignments, producers and partitions."""
        return self.has("reader", "publisher")

    @property
    def runs_jobs(self) -> bool:
        """Whether there may be jobs of the visitor, or jobs that the visitor may see."""
        return self.has("reader", "publisher", "worker")

    @property
    def works(self) -> bool:
        return self.has("reader", "worker")

    def may_open(self, recipient: str) -> bool:
        return self.operates or (
            "recipient" in self.roles and (self.recipients is None or recipient in self.recipients)
        )

    @property
    def opens(self) -> bool:
        """Whether there is a mailbox that the visitor may look into."""
        return self.has("recipient")


OPERATORS = ConsoleVisitor(name="", roles=("operator",))


class HubExtras(NamedTuple):
    """The extras that a hub has beyond what every hub has: only if they are used."""

    jobs: bool = False
    nodes: bool = False
    """Several nodes, or one with several shards."""


@dataclass(slots=True)
class Visit:
    """One request, who made it, and the hub as they see it."""

    request: ConsoleRequest
    visitor: ConsoleVisitor
    hub: HubAsker
    slow_answers: SlowAnswers
    seal: str
    """The seal that forms carry."""
    extras: HubExtras = field(default_factory=HubExtras)
    """The extras that the hub has beyond what every hub has."""
    place: Mapping[str, str] = field(default_factory=dict)
    """The parts of the path in place of the names of its route."""
    again: bool = False
    """A stream makes the page again, for its parts that move: the rest need not be asked for."""
    parts: dict[str, Markup] = field(default_factory=dict)
    """The parts of the page that move, by name."""

    def moving(self, name: str, *children: Child) -> Markup:
        """A part of the page that a stream sends again when it has changed."""
        inner = tag("div", children).text.removeprefix("<div>").removesuffix("</div>")
        self.parts[name] = Markup(inner)
        return tag("div", Markup(inner), id=f"part-{name}", data_part=name)

    async def remembered(self, kind: type[T], /, *segments: str, **query: object) -> Remembered[T] | None:
        """The answer of a route that may take long: what was known before, if it takes too long; None if nothing was."""
        key = (self.visitor.sight, kind, segments, tuple(sorted(query.items(), key=str)))
        return await self.slow_answers.ask(key, lambda: self.hub.get(kind, *segments, **query), seldom=self.again)

    def asked(self, name: str) -> str | None:
        """The value in the query, if it says anything."""
        return self.request.query.get(name) or None

    def number(self, name: str) -> int | None:
        text = self.asked(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdecimal() and len(text) <= 18):
            raise InvalidRequest(f"{name} must be a whole number, not {text[:40]!r}.")
        return int(text)

    @property
    def offset(self) -> int:
        return self.number("after") or 0

    @property
    def rows(self) -> int:
        return CONSOLE_PAGE_ROWS

"""The short ways of actions: accepting one, and small reports of outcomes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import quote

from restante.hub.door.short_actions import (
    ActionPublish,
    act_soon,
    looked_up,
    report_all_soon,
    report_soon,
    stored_status,
)
from restante.hub.engine.commit_request import CommitRequest, Listener
from restante.model.access.access import Grant
from restante.model.actions.action_answers import ActionStatus, OutcomesReported, OutcomesTaken
from restante.model.actions.action_kind import CORRELATION_PROPERTY
from restante.model.mailboxes.answers import Receipt
from restante.server.connections.exchange import CORRELATION_ID, correlation_id_of
from restante.server.connections.short_way import PlainHead
from restante.server.route_table import Route
from restante.server.routes import actions
from restante.server.routes.actions import carried_properties
from restante.server.short_routes.short_route import GivenHeaders, ShortRoute
from restante.wire.action_bodies import read_action, read_outcomes, read_reports, report_of

_NAME = rb"([A-Za-z0-9_~-][A-Za-z0-9._~-]*)"
"""Matches plain names. Names that are percent-encoded, or that a proxy might change, are left to the application."""
_ACTION = re.compile(rb"/v1/actions/" + _NAME)
_OUTCOMES = re.compile(rb"/v1/groups/" + _NAME + rb"/partitions/([0-9]{1,9})/outcomes")
_JOINT_OUTCOMES = re.compile(rb"/v1/groups/" + _NAME + rb"/outcomes")
_NO_STORE = b"cache-control: no-store\r\n"


class ShortAction(ShortRoute[Receipt]):
    """An action without a wait for its outcome. If it was known before, its status is looked up in a thread."""

    route: ClassVar[Route] = actions.SEND
    status: ClassVar[int] = 202
    finishes: ClassVar[bool] = True

    def place(self, url: bytes) -> tuple[str, ...] | None:
        found = _ACTION.fullmatch(url)
        return None if found is None else (found[1].decode(),)

    def submit(self, head: PlainHead, grant: Grant, body: bytes, listener: Listener[Receipt]) -> bool:
        own_id, trace = correlation_id_of(head.given.get(CORRELATION_ID)), head.given.get(b"traceparent")
        carried = carried_properties(own_id, None if trace is None else trace.decode("latin-1"))
        act_soon(self.desk.hub, read_action(head.place[0], body), carried, grant, listener)
        return True

    def is_unfinished(self, request: CommitRequest[Receipt]) -> bool:
        return request.error is None and request.result is not None and not request.result.accepted

    def finish(self, request: CommitRequest[Receipt]) -> Receipt:
        assert isinstance(request, ActionPublish), "it was made here"
        request.known = looked_up(self.desk.hub, request)
        return request.answer()

    def shown(self, request: CommitRequest[Receipt], own_id: str) -> ActionStatus:  # noqa: ARG002
        request.answer()
        assert isinstance(request, ActionPublish), "it was made here"
        return stored_status(self.desk.hub, request) if request.known is None else request.known

    def beside(self, answer: object) -> bytes:
        assert isinstance(answer, ActionStatus), "that is what is shown"
        later = b"" if answer.is_final else b"retry-after: 1\r\n"
        return _NO_STORE + b"location: /v1/actions/%b\r\n" % quote(answer.id, safe="").encode() + later

    def correlation_id(self, request: CommitRequest[Receipt], given: GivenHeaders) -> str:  # noqa: ARG002
        assert isinstance(request, ActionPublish), "it was made here"
        return request.message.properties[CORRELATION_PROPERTY]

    def count(self, answers: Sequence[Receipt], seconds: Sequence[float]) -> None:
        """Actions are counted by the hub."""


class ShortReport(ShortRoute[OutcomesTaken]):
    """A report of a few actions that are in memory."""

    route: ClassVar[Route] = actions.REPORT
    status: ClassVar[int] = 200
    is_of_group: ClassVar[bool] = True

    def place(self, url: bytes) -> tuple[str, ...] | None:
        found = _OUTCOMES.fullmatch(url)
        return None if found is None else (found[1].decode(), found[2].decode())

    def submit(self, head: PlainHead, grant: Grant, body: bytes, listener: Listener[OutcomesTaken]) -> bool:  # noqa: ARG002
        group, partition = head.place
        return report_soon(self.desk.hub, report_of(group, int(partition), read_outcomes(body)), listener)

    def beside(self, answer: object) -> bytes:  # noqa: ARG002
        return _NO_STORE

    def count(self, answers: Sequence[OutcomesTaken], seconds: Sequence[float]) -> None:
        """Outcomes are counted by the hub."""


class ShortJointReport(ShortRoute[OutcomesReported]):
    """The short way of a report of several partitions."""

    route: ClassVar[Route] = actions.REPORT_EACH
    status: ClassVar[int] = 200
    is_of_group: ClassVar[bool] = True

    def place(self, url: bytes) -> tuple[str, ...] | None:
        found = _JOINT_OUTCOMES.fullmatch(url)
        return None if found is None else (found[1].decode(),)

    def submit(self, head: PlainHead, grant: Grant, body: bytes, listener: Listener[OutcomesReported]) -> bool:  # noqa: ARG002
        return report_all_soon(self.desk.hub, read_reports(head.place[0], body), listener)

    def beside(self, answer: object) -> bytes:  # noqa: ARG002
        return _NO_STORE

    def count(self, answers: Sequence[OutcomesReported], seconds: Sequence[float]) -> None:
        """Outcomes are counted by the hub."""

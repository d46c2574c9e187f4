"""Consignments: the messages staged by each writer, and when they were committed."""

from __future__ import annotations

from restante.console.pages.batches import choose
from restante.console.pages.frame import page, pager
from restante.console.view.figures import byte_count, relative, whole
from restante.console.view.markup import Child, Markup, at, link, tag
from restante.console.view.tables import badge, facts, section, table
from restante.console.web.console_routes import ConsoleRoute
from restante.console.web.exchanges import ConsoleReply
from restante.console.web.visits import Visit
from restante.model.consignments.consignment_answers import (
    ConsignmentDetails,
    ConsignmentPage,
    ConsignmentState,
    ConsignmentStatus,
)


async def consignments(visit: Visit) -> ConsoleReply:
    state, key = visit.asked("state"), visit.asked("key")
    found = await visit.hub.get(
        ConsignmentPage, "consignments", state=state, key=key, limit=visit.rows, after=visit.asked("after")
    )
    rows = [_row(one) for one in found.consignments]
    heads = ("Consignment", "State", "#Staged", "#Size", "#Delivered", "Opened", "Last activity", "Closed")
    none = "There is no consignment. Writers open one to deliver much at one moment."
    empty = "No consignment has this key, or is in this state." if state or key else none
    listed = tag("div", table(heads, rows, empty=empty, caption="Consignments"), class_="panel")
    return page(
        visit,
        "Consignments",
        choose(("consignments",), "state", [one.value for one in ConsignmentState], state, key=key),
        visit.moving("list", listed),
        pager(visit, found.next, first=visit.asked("after") is None),
    )


def _row(one: ConsignmentStatus) -> tuple[Child, ...]:
    return (
        link(one.key, "consignments", one.id),
        badge(one.state.value),
        whole(one.staged_messages),
        byte_count(one.staged_bytes),
        whole(one.receipt.accepted) if one.receipt else "",
        relative(one.opened_at),
        relative(one.last_activity_at),
        relative(one.closed_at),
    )


async def consignment(visit: Visit) -> ConsoleReply:
    found = await visit.hub.get(ConsignmentDetails, "consignments", visit.place["consignment"])
    offered = visit.visitor.has("publisher") and found.state is ConsignmentState.OPEN
    above = (
        tag("a", "Discard…", href=at("do", "discard", consignment=found.id), class_="button danger")
        if offered
        else None
    )
    return page(
        visit,
        found.key,
        visit.moving("status", section("How it is", _facts(found))),
        visit.moving("attempts", _attempts(found)),
        above=above,
    )


def _facts(found: ConsignmentDetails) -> Markup:
    pairs: list[tuple[str, Child]] = [
        ("Id", tag("code", found.id)),
        ("State", badge(found.state.value)),
        ("Staged", f"{whole(found.staged_messages)} messages, {byte_count(found.staged_bytes)}"),
        ("Opened", relative(found.opened_at)),
        ("Last activity", relative(found.last_activity_at)),
        ("Closed", relative(found.closed_at, missing="not yet")),
        ("Batch", link(found.batch, "batches", found.batch) if found.batch else "none"),
    ]
    if found.receipt is not None:
        pairs.append(
            ("Delivered", f"{whole(found.receipt.accepted)}, and {whole(found.receipt.duplicates)} duplicates")
        )
    return facts(pairs)


def _attempts(found: ConsignmentDetails) -> Markup:
    rows = [
        (one.writer, whole(one.attempt), whole(one.parcels), whole(one.messages), byte_count(one.bytes))
        for one in found.attempts
    ]
    heads = ("Writer", "#Attempt", "#Parcels", "#Messages", "#Size")
    empty = "Nothing is staged: it is closed, or nobody has staged yet."
    return section("Staged, by writer and attempt", table(heads, rows, empty=empty, caption="Attempts"))


ROUTES = (
    ConsoleRoute("GET", "consignments", consignments, lambda visitor: visitor.looks),
    ConsoleRoute("GET", "consignments/{consignment}", consignment, lambda visitor: visitor.looks),
)

"""Batches: how far each has come, who has not collected, and who hears of its completion."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from restante.console.pages.frame import page, pager
from restante.console.view.figures import counted, relative, whole
from restante.console.view.markup import Child, Markup, at, link, tag
from restante.console.view.tables import badge, bar, facts, on_its_way, section, table
from restante.console.web.console_routes import ConsoleRoute
from restante.console.web.exchanges import ConsoleReply
from restante.console.web.visits import Visit
from restante.model.batches.batch_answers import (
    BatchPage,
    BatchState,
    BatchStatus,
    Counting,
    Delivery,
    PendingPage,
    ProgressPage,
    RecipientProgress,
)


async def batches(visit: Visit) -> ConsoleReply:
    state, key = visit.asked("state"), visit.asked("key")
    found = await visit.hub.get(
        BatchPage, "batches", state=state, key=key, limit=visit.rows, after=visit.asked("after")
    )
    empty = "No batch has this key, or is in this state." if state or key else _NO_BATCH
    listed = tag("div", batch_rows(found.batches, empty), class_="panel")
    return page(
        visit,
        "Batches",
        choose(("batches",), "state", [one.value for one in BatchState], state, key=key),
        visit.moving("list", listed),
        pager(visit, found.next, first=visit.asked("after") is None),
    )


def choose(action: tuple[str, ...], name: str, values: Sequence[str], chosen: str | None, *, key: str | None) -> Markup:
    """A form that leaves those of a list with a key, or in a state."""
    options = [tag("option", "every state", value="", selected=chosen is None)]
    options += [tag("option", value, value=value, selected=value == chosen) for value in values]
    return tag(
        "form",
        tag(
            "input",
            type="search",
            name="key",
            value=key or "",
            placeholder="Exactly this key",
            aria_label="Exactly this key",
        ),
        tag("select", options, name=name, aria_label="Only in this state", data_submit=True),
        tag("button", "Show"),
        method="get",
        action=at(*action),
        class_="controls",
        role="search",
    )


_NO_BATCH = "There is no batch. A producer opens one to hear when all was collected."


def batch_rows(found: Sequence[BatchStatus], empty: str = _NO_BATCH) -> Markup:
    rows = [
        (
            link(one.key or one.id, "batches", one.id),
            badge(one.state.value),
            _progress(one),
            whole(one.items - one.pending),
            whole(one.items),
            relative(one.opened_at),
            _told(one.deliveries),
        )
        for one in found
    ]
    heads = ("Batch", "State", "Progress", "#Done", "#Items", "Opened", "Notices")
    return table(heads, rows, empty=empty, caption="Batches")


def _progress(one: BatchStatus) -> Markup:
    done = one.items - one.pending
    return bar(done, one.items, label=f"{whole(done)} of {counted(one.items, 'item')} done")


def _told(deliveries: Sequence[Delivery]) -> Child:
    late = [one for one in deliveries if one.delivered_at is None and one.attempts]
    if late:
        return badge("pending", "yellow")
    return badge("delivered") if any(one.delivered_at for one in deliveries) else ""


async def batch(visit: Visit) -> ConsoleReply:
    own = visit.place["batch"]
    status = await visit.hub.get(BatchStatus, "batches", own)
    slow, pending = await asyncio.gather(
        visit.remembered(
            ProgressPage, "batches", own, "progress", slowest=True, limit=visit.rows, after=visit.asked("after")
        ),
        _pending(visit, status),
    )
    return page(
        visit,
        status.key or "Batch",
        visit.moving("status", _status(status)),
        visit.moving("notices", _notices(status.deliveries)) if status.deliveries else None,
        visit.moving("slow", _slow(visit, None if slow is None else slow.answer)),
        _by_hand(pending),
        above=_actions(visit, status),
    )


async def _pending(visit: Visit, status: BatchStatus) -> PendingPage:
    """Items that are still to be acknowledged. An estimated batch does not know which they are."""
    if status.counting is Counting.ESTIMATED:
        return PendingPage(items=(), next=None)
    return await visit.hub.get(PendingPage, "batches", status.id, "pending", limit=20)


def _actions(visit: Visit, status: BatchStatus) -> Child:
    if not visit.visitor.has("publisher"):
        return None
    return tag("a", "Delete…", href=at("do", "delete-batch", batch=status.id), class_="button danger")


def _status(one: BatchStatus) -> Markup:
    shown = facts(
        [
            ("Id", tag("code", one.id)),
            ("State", badge(one.state.value)),
            ("Progress", _progress(one)),
            ("Items", whole(one.items)),
            ("Pending", whole(one.pending)),
            ("Collected", whole(one.collected)),
            ("Acknowledged by hand", whole(one.acknowledged)),
            ("Expired", whole(one.expired)),
            ("Withdrawn", whole(one.withdrawn)),
            ("Duplicates", _duplicates(one)),
            ("Counting", one.counting.value),
            ("Opened", relative(one.opened_at)),
            ("Sealed", relative(one.sealed_at, missing="not yet")),
            ("Complete", relative(one.completed_at, missing="not yet")),
        ]
    )
    return section("How far it is", shown)


def _duplicates(one: BatchStatus) -> str:
    return f"{whole(one.duplicates)}, {whole(one.duplicates_waiting)} still waiting" if one.duplicates else "0"


def _notices(deliveries: Sequence[Delivery]) -> Markup:
    rows = [
        (
            one.to,
            badge("delivered") if one.delivered_at else badge("pending"),
            whole(one.attempts),
            relative(one.last_attempt_at, missing="never"),
            relative(one.delivered_at or one.next_attempt_at),
            one.problem or "",
        )
        for one in deliveries
    ]
    heads = ("To", "State", "#Attempts", "Last attempt", "Delivered, or next", "Problem")
    return section("Notices of its completion", table(heads, rows, caption="Notices"))


def _slow(visit: Visit, found: ProgressPage | None) -> Markup:
    """The slowest recipients of a batch: those with the oldest waiting message first."""
    title = "Who has not collected, the slowest first"
    if found is None:
        return section(title, on_its_way())
    rows = [_recipient_row(visit, one) for one in found.recipients]
    heads = ("Recipient", "Progress", "#Waiting", "#Collected", "#Set aside", "Oldest")
    empty = "Every recipient of this batch has collected, or its items are acknowledged by hand."
    following = pager(visit, found.next, first=visit.asked("after") is None)
    return section(title, table(heads, rows, empty=empty, caption="Recipients"), following)


def _recipient_row(visit: Visit, one: RecipientProgress) -> tuple[Child, ...]:
    whole_count = one.collected + one.waiting + one.set_aside + one.expired + one.withdrawn
    name: Child = (
        link(one.recipient, "recipients", one.recipient) if visit.visitor.may_open(one.recipient) else one.recipient
    )
    done = bar(
        whole_count - one.waiting, whole_count, label=f"{whole(whole_count - one.waiting)} of {whole(whole_count)}"
    )
    return name, done, whole(one.waiting), whole(one.collected), whole(one.set_aside), relative(one.oldest_waiting)


def _by_hand(pending: PendingPage) -> Markup | None:
    """The section of items that are still to be acknowledged, if there are any."""
    if not pending.items:
        return None
    rows = [(tag("code", item),) for item in pending.items]
    more = tag("p", "The first 20.", class_="soft") if pending.next else None
    return section("Items not acknowledged", table(("Item",), rows, caption="Items"), more)


ROUTES = (
    ConsoleRoute("GET", "batches", batches, lambda visitor: visitor.looks),
    ConsoleRoute("GET", "batches/{batch}", batch, lambda visitor: visitor.looks),
)

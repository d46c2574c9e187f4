"""Partitions and producers: how far each partition has come, and who publishes into it with numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from restante.console.pages.frame import page, pager
from restante.console.pages.shown_answers import ShownPartition, ShownPartitions
from restante.console.view.figures import number, relative, whole
from restante.console.view.markup import Child, Markup, at, link, tag
from restante.console.view.plots import column_plot
from restante.console.view.tables import magnitude, section, table
from restante.console.web.console_routes import ConsoleRoute
from restante.console.web.exchanges import ConsoleReply
from restante.console.web.visits import Visit
from restante.errors import NotFound
from restante.limits import UNFILED_RUNS_MAX
from restante.model.mailboxes.answers import ProducerPage, ProducerState

_PARTITIONS_SHOWN = 128
_PARTITIONS_ASKED = 64
"""The producers of so many partitions are shown together."""


async def partitions(visit: Visit) -> ConsoleReply:
    one = visit.number("partition")
    after = visit.number("after") if one is None else (one - 1 if one else None)
    found = await visit.hub.get(
        ShownPartitions, "partitions", limit=1 if one is not None else _PARTITIONS_SHOWN, after=after
    )
    if one is not None and not found.partitions:
        raise NotFound(f"There is no partition {one}.")
    owners = {partition.owner for partition in found.partitions}
    return page(
        visit,
        "Partitions" if one is None else f"Partition {one}",
        visit.moving("plot", _plot(found)) if one is None else None,
        _nodes(owners, whole_list=after is None and found.next is None) if one is None else None,
        visit.moving("list", tag("div", _table(found, owners), class_="panel")),
        pager(visit, found.next, first=visit.number("after") is None) if one is None else None,
    )


def _nodes(owners: set[str], *, whole_list: bool) -> Markup | None:
    """A hub of one node has none to tell apart: a line says so."""
    if len(owners) != 1:
        return None
    (owner,) = owners
    said = "One node owns every partition" if whole_list else "One node owns these partitions"
    return tag("p", f"{said}: {owner}.", class_="soft")


def _plot(found: ShownPartitions) -> Markup:
    values = [(f"Partition {one.partition}", float(one.waiting)) for one in found.partitions]
    return section("Waiting by partition", column_plot(values, label="Waiting messages of each partition"))


def _table(found: ShownPartitions, owners: set[str]) -> Markup:
    most = max((one.waiting for one in found.partitions), default=0)
    rows = [_row(one, most, several=len(owners) > 1) for one in found.partitions]
    heads = (
        "#Partition",
        "#Visible up to",
        "#Waiting",
        "",
        "#Unfiled runs",
        "Producers",
        *(["Owner"] if len(owners) > 1 else []),
    )
    return table(heads, rows, caption="Partitions")


def _row(one: ShownPartition, most: int, *, several: bool) -> tuple[Child, ...]:
    unfiled = tag("b", whole(one.unfiled), class_="red") if one.unfiled > UNFILED_RUNS_MAX else whole(one.unfiled)
    shown: tuple[Child, ...] = (
        whole(one.partition),
        whole(one.visible_sequence),
        whole(one.waiting),
        magnitude(one.waiting, most),
        unfiled,
        link("Producers", "producers", partition=one.partition),
    )
    return (*shown, one.owner) if several else shown


async def producers(visit: Visit) -> ConsoleReply:
    """The producers of one partition, or of the first partitions."""
    chosen = visit.number("partition")
    listed = await visit.hub.get(ShownPartitions, "partitions", limit=1_000)
    numbers = [one.partition for one in listed.partitions] if chosen is None else [chosen]
    after = visit.asked("after")
    pages = await asyncio.gather(
        *(
            visit.hub.get(ProducerPage, "partitions", str(one), "producers", limit=visit.rows, after=after)
            for one in numbers[:_PARTITIONS_ASKED]
        )
    )
    found = [state for each in pages for state in each.producers]
    following = pages[0].next if chosen is not None and pages else None
    more = "" if chosen is not None else _left_out(numbers, pages)
    return page(
        visit,
        "Producers",
        _choose(len(listed.partitions), chosen),
        visit.moving("list", tag("div", _producers(found), class_="panel")),
        tag("p", more, class_="soft") if more else None,
        pager(visit, following, first=after is None),
    )


def _left_out(numbers: Sequence[int], pages: Sequence[ProducerPage]) -> str:
    if len(numbers) > _PARTITIONS_ASKED:
        return f"Those of partitions 0 to {_PARTITIONS_ASKED - 1}. Choose a partition to see others."
    return "Choose a partition to see all of its producers." if any(each.next for each in pages) else ""


def _choose(count: int, chosen: int | None) -> Markup:
    options = [tag("option", "every partition", value="", selected=chosen is None)]
    options += [tag("option", f"partition {index}", value=index, selected=index == chosen) for index in range(count)]
    select = tag("select", options, name="partition", aria_label="Partition", data_submit=True)
    return tag(
        "form",
        select,
        tag("button", "Show"),
        method="get",
        action=at("producers"),
        class_="controls",
    )


def _producers(found: list[ProducerState]) -> Markup:
    rows = [
        (
            whole(one.partition),
            str(one.producer_group),
            whole(one.owner_level),
            number(one.last_published_sequence_number),
            whole(one.replays),
            whole(one.fenced_attempts),
            relative(one.last_activity_at),
        )
        for one in found
    ]
    heads = ("#Partition", "#Group", "#Owner level", "#Last number", "#Replays", "#Fenced", "Last activity")
    empty = "No producer numbers what it sends. A ProducerClient does, so that nothing is stored twice."
    return table(heads, rows, empty=empty, caption="Producers")


ROUTES = (
    ConsoleRoute("GET", "partitions", partitions, lambda visitor: visitor.looks),
    ConsoleRoute("GET", "producers", producers, lambda visitor: visitor.looks),
)

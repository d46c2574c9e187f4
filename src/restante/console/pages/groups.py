"""Groups: how far behind each is, partition by partition, who is in it, and what an operator may do."""

from __future__ import annotations

from restante.console.pages.frame import page, pager
from restante.console.view.figures import counted, relative, whole
from restante.console.view.markup import Child, Markup, at, link, tag
from restante.console.view.plots import column_plot
from restante.console.view.tables import badge, facts, section, table
from restante.console.web.console_routes import ConsoleRoute
from restante.console.web.exchanges import ConsoleReply
from restante.console.web.visits import Visit
from restante.model.groups.group_answers import GroupPage, GroupStatus


async def groups(visit: Visit) -> ConsoleReply:
    found = await visit.hub.get(GroupPage, "groups", limit=visit.rows, after=visit.asked("after"))
    rows = [
        (
            link(one.group, "groups", one.group),
            group_state(one),
            whole(one.lag),
            _oldest(one),
            whole(len(one.members)),
            ", ".join(one.kinds) or "every kind",
            ", ".join(one.actions) or "–",
        )
        for one in found.groups
    ]
    heads = ("Group", "State", "#Lag", "Oldest unread", "#Members", "Kinds", "Actions")
    empty = "There is no group. Programs make one to share the feed: restante groups, or hub.group(…)."
    listed = tag("div", table(heads, rows, empty=empty, caption="Groups"), class_="panel")
    return page(
        visit, "Groups", visit.moving("list", listed), pager(visit, found.next, first=visit.asked("after") is None)
    )


def group_state(one: GroupStatus) -> Markup:
    if one.paused:
        return badge("paused")
    return badge("running", "green") if one.members else badge("nobody", "grey")


def _oldest(one: GroupStatus) -> Markup:
    moments = [part.oldest_unread_at for part in one.partitions if part.oldest_unread_at is not None]
    return relative(min(moments, default=None))


async def group(visit: Visit) -> ConsoleReply:
    found = await visit.hub.get(GroupStatus, "groups", visit.place["group"])
    return page(
        visit,
        found.group,
        visit.moving("lag", _lag(found)),
        visit.moving("facts", section("What it reads", _facts(found))),
        visit.moving("members", _members(found)),
        visit.moving("partitions", _partitions(found)),
        above=_actions(visit, found),
    )


def _actions(visit: Visit, found: GroupStatus) -> Child:
    poison = link("Poison", "groups", found.group, "poison") if found.actions and visit.visitor.has("worker") else None
    return poison, _changes(visit, found)


def _changes(visit: Visit, found: GroupStatus) -> Child:
    if not visit.visitor.operates:
        return None
    turn = ("resume", "Go on…") if found.paused else ("pause", "Pause…")
    return [
        tag("a", label, href=at("do", change, group=found.group), class_=f"button {tone}".strip())
        for change, label, tone in ((*turn, ""), ("reset", "Reset…", ""), ("delete-group", "Delete…", "danger"))
    ]


def _lag(found: GroupStatus) -> Markup:
    values = [(f"Partition {one.partition}", float(one.lag)) for one in found.partitions]
    aside = tag("b", counted(found.lag, "number")), " behind"
    return section(
        "Lag by partition", column_plot(values, label=f"Lag of each partition, {found.lag} in all"), aside=aside
    )


def _facts(found: GroupStatus) -> Markup:
    return facts(
        [
            ("State", group_state(found)),
            ("Origins", ", ".join(found.origins) or "every origin"),
            ("Kinds", ", ".join(found.kinds) or "every kind"),
            ("Actions", ", ".join(found.actions) or "none"),
            ("Overtaken by retention", found.gone.value),
        ]
    )


def _members(found: GroupStatus) -> Markup:
    rows = [
        (one.member, tag("code", one.member_id), whole(len(one.partitions)), relative(one.heartbeat_at))
        for one in found.members
    ]
    empty = "Nobody is in the group: what comes waits in the feed."
    return section(
        "Members", table(("Member", "Id", "#Partitions", "Last heartbeat"), rows, empty=empty, caption="Members")
    )


def _partitions(found: GroupStatus) -> Markup:
    names = {one.member_id: one.member for one in found.members}
    rows = [
        (
            whole(one.partition),
            whole(one.position),
            whole(one.end),
            whole(one.lag),
            relative(one.oldest_unread_at),
            names.get(one.member_id or "", one.member_id or "nobody"),
        )
        for one in found.partitions
    ]
    heads = ("#Partition", "#Position", "#End", "#Lag", "Oldest unread", "Held by")
    return section("Partitions", table(heads, rows, caption="Partitions"))


ROUTES = (
    ConsoleRoute("GET", "groups", groups, lambda visitor: visitor.works),
    ConsoleRoute("GET", "groups/{group}", group, lambda visitor: visitor.works),
)

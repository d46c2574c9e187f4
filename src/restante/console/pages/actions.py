"""Actions: what became of one, and the poison of each group, to be done again or given up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from restante.console.pages.frame import page, pager
from restante.console.pages.groups import group_state
from restante.console.pages.mailbox import short_id
from restante.console.pages.message import pretty
from restante.console.view.figures import counted, relative, whole
from restante.console.view.markup import Child, Markup, at, link, tag
from restante.console.view.tables import badge, facts, section, table
from restante.console.web.console_routes import ConsoleRoute
from restante.console.web.exchanges import ConsoleReply
from restante.console.web.visits import ConsoleVisitor, Visit
from restante.model.actions.action_answers import ActionStatus, PoisonedAction, PoisonPage
from restante.model.groups.group_answers import GroupPage, GroupStatus

_GROUPS_SHOWN = 20
_GIST_CHARACTERS = 300


def may_see(visitor: ConsoleVisitor) -> bool:
    return visitor.has("worker")


async def actions(visit: Visit) -> ConsoleReply:
    """The poison of the first groups that have actions, and the way to what became of one."""
    found = await visit.hub.get(GroupPage, "groups", limit=visit.rows, after=visit.asked("after"))
    doing = [one for one in found.groups if one.actions][:_GROUPS_SHOWN]
    pages = await asyncio.gather(*(_poison_of(visit, one.group, limit=5) for one in doing))
    return page(
        visit,
        "Actions",
        _look_up(),
        visit.moving("groups", _groups(doing, pages)),
        visit.moving("poison", [_some_poison(visit, one, poison) for one, poison in zip(doing, pages, strict=True)]),
        pager(visit, found.next, first=visit.asked("after") is None),
    )


async def _poison_of(visit: Visit, group: str, *, limit: int, after: str | None = None) -> PoisonPage:
    return await visit.hub.get(PoisonPage, "groups", group, "poison", limit=limit, after=after)


def _look_up() -> Markup:
    def field(name: str, label: str) -> Markup:
        given = {"type": "search", "name": name, "placeholder": label, "aria_label": label, "autocomplete": "off"}
        return tag("input", **given, required=name == "id")

    return tag(
        "form",
        field("id", "An action’s id"),
        field("concerns", "What it concerns"),
        tag("button", "Look it up"),
        method="get",
        action=at("actions", "one"),
        class_="controls",
        role="search",
    )


def _groups(doing: Sequence[GroupStatus], pages: Sequence[PoisonPage]) -> Markup:
    rows = [
        (
            link(one.group, "groups", one.group),
            group_state(one),
            ", ".join(one.actions),
            whole(one.lag),
            whole(len(one.members)),
            _poison_count(one, poison),
        )
        for one, poison in zip(doing, pages, strict=True)
    ]
    heads = ("Group", "State", "Actions", "#Lag", "#Workers", "Poison")
    empty = "No group does actions. A worker declares them: restante work module:app."
    return section("Groups that do actions", table(heads, rows, empty=empty, caption="Groups that do actions"))


def _poison_count(one: GroupStatus, poison: PoisonPage) -> Child:
    if not poison.poison:
        return tag("span", "none", class_="none")
    count = f"more than {len(poison.poison)}" if poison.next else whole(len(poison.poison))
    return tag("a", tag("b", count, class_="red"), href=at("groups", one.group, "poison"))


def _some_poison(visit: Visit, one: GroupStatus, found: PoisonPage) -> Markup | None:
    if not found.poison:
        return None
    aside = link("All", "groups", one.group, "poison") if found.next else None
    return section(f"Poison of {one.group}", _table(visit, one.group, found.poison), aside=aside)


async def poison(visit: Visit) -> ConsoleReply:
    group = visit.place["group"]
    found = await _poison_of(visit, group, limit=visit.rows, after=visit.asked("after"))
    listed = tag("div", _table(visit, group, found.poison), class_="panel")
    return page(
        visit,
        f"Poison of {group}",
        tag("p", "Actions that could not be done. Each waits here until it is done again or given up.", class_="soft"),
        visit.moving("list", listed),
        pager(visit, found.next, first=visit.asked("after") is None),
        above=link("The group", "groups", group),
    )


def _table(visit: Visit, group: str, found: Sequence[PoisonedAction]) -> Markup:
    rows = [
        (
            tag("div", tag("b", one.action), tag("div", one.concerns, class_="soft")),
            tag("code", link(short_id(one.id), "actions", "one", id=one.id, concerns=one.concerns), title=one.id),
            _problem(one),
            whole(one.attempts),
            whole(one.deaths),
            relative(one.at),
            _body(one),
            _choices(visit, group, one),
        )
        for one in found
    ]
    heads = ("Action", "Id", "Problem", "#Attempts", "#Deaths", "Since", "Data", "")
    return table(heads, rows, empty="No action of this group is poison.", caption="Poison")


def _problem(one: PoisonedAction) -> Markup:
    """The code and the gist; the whole is unfolded."""
    detail, said = one.problem.detail, gist(one.problem.detail)
    shown = tag("div", tag("code", one.problem.code), tag("div", said, class_="soft"))
    if said == detail.strip():
        return shown
    whole_text = tag("pre", tag("code", detail), tabindex=0, aria_label="The whole problem")
    return tag("div", shown, tag("details", tag("summary", "All of it"), whole_text, data_key=f"{one.id} problem"))


def gist(detail: str) -> str:
    """The line of a problem that says what happened, which a traceback has at its end."""
    lines = [line.strip() for line in detail.splitlines() if line.strip()]
    said = lines[-1] if lines and lines[0].startswith("Traceback") else " ".join(lines)
    return said if len(said) <= _GIST_CHARACTERS else f"{said[:_GIST_CHARACTERS]}…"


def _body(one: PoisonedAction) -> Child:
    if isinstance(one.data, msgspec.UnsetType):
        return tag("span", one.media_type, class_="none")
    shown = tag("pre", tag("code", pretty(bytes(one.data))[:4_096]), tabindex=0, aria_label="Data")
    return tag("details", tag("summary", "Show"), shown, data_key=f"{one.id} {one.concerns}")


def _choices(visit: Visit, group: str, one: PoisonedAction) -> Child:
    if not visit.visitor.operates:
        return ""
    told = {"group": group, "id": one.id, "concerns": one.concerns}
    return (
        tag("a", "Do again…", href=at("do", "retry", **told), aria_label=f"Do {one.id} again"),
        " ",
        tag("a", "Give up…", href=at("do", "give-up", **told), aria_label=f"Give {one.id} up"),
    )


async def action(visit: Visit) -> ConsoleReply:
    """One action, and what became of it."""
    own = visit.asked("id") or ""
    found = await visit.hub.get(ActionStatus, "actions", own, concerns=visit.asked("concerns"), redirect=False)
    return page(visit, f"Action {found.action}", visit.moving("outcome", _outcome(found)))


def _outcome(found: ActionStatus) -> Child:
    pairs: list[tuple[str, Child]] = [
        ("State", badge(found.state.value)),
        ("Id", tag("code", found.id)),
        ("Concerns", found.concerns),
        ("Attempts", counted(found.attempts, "attempt")),
        ("Workers that died doing it", whole(found.deaths)),
        ("Accepted", relative(found.accepted_at)),
        ("Begun", relative(found.begun_at, missing="not yet")),
        ("Ended", relative(found.ended_at, missing="not yet")),
    ]
    if not isinstance(found.next_attempt_at, msgspec.UnsetType):
        pairs.append(("Next attempt", relative(found.next_attempt_at)))
    if not isinstance(found.location, msgspec.UnsetType):
        pairs.append(("Location", found.location))
    if not isinstance(found.problem, msgspec.UnsetType):
        pairs.append(("Problem", tag("code", found.problem.code)))
    return section("What became of it", facts(pairs)), _in_full(found)


def _in_full(found: ActionStatus) -> Child:
    """The result of the action, or why there is none: each as it was said."""
    if not isinstance(found.problem, msgspec.UnsetType) and found.problem.detail:
        return section("What went wrong", tag("pre", tag("code", found.problem.detail), tabindex=0))
    if isinstance(found.result, msgspec.UnsetType):
        return None
    return section("Result", tag("pre", tag("code", pretty(bytes(found.result))), tabindex=0))


ROUTES = (
    ConsoleRoute("GET", "actions", actions, may_see),
    ConsoleRoute("GET", "actions/one", action, may_see),
    ConsoleRoute("GET", "groups/{group}/poison", poison, may_see),
)

"""A mailbox: why a peek answers what it answers, what waits, the open bundle, and history."""

from __future__ import annotations

import asyncio

from restante.console.pages.frame import page, pager
from restante.console.pages.shown_answers import ShownHistory, ShownLine, ShownPlace
from restante.console.view.figures import counted, relative, whole
from restante.console.view.markup import Child, Markup, at, link, tag
from restante.console.view.tables import badge, note, section, table
from restante.console.web.console_routes import ConsoleRoute
from restante.console.web.exchanges import ConsoleReply
from restante.console.web.visits import Visit
from restante.errors import Forbidden
from restante.model.mailboxes.answers import Explanation, Reason
from restante.model.publishing.message import State

_NEWEST = 2**63 - 1
_ROWS = 25
_ADVICE = {
    Reason.READY: ("good", "Nothing is in the way", "The recipient only has to come."),
    Reason.NOTHING_WAITING: (
        "plain",
        "A peek answers nothing: nothing waits",
        (
            "History, below, shows which. A message that is set aside is released on its own page. If something should be "
            "here, look whether its producer sent it to exactly this name."
        ),
    ),
    Reason.NOT_YET_VISIBLE: (
        "warn",
        "A peek answers nothing yet",
        (
            "Its messages are delayed until their visible_at; or they are of a consignment that is being committed over several "
            "shards, and become visible within moments. If that stays, `restante shards rounds` says what it waits for."
        ),
    ),
    Reason.BUNDLE_OPEN_IN_GROUP: (
        "warn",
        "A peek for these origins answers nothing: another bundle of the group is open",
        (
            "The recipient has taken a bundle and not confirmed it. It must dequeue that one first; it gets the same one again "
            "by a peek without a filter."
        ),
    ),
    Reason.ORIGIN_DID_NOT_DELIVER: (
        "bad",
        "A peek answers nothing: the origin did not deliver the content",
        (
            "The message is a claim check, and the address that has its content failed. Look at the origin's own log, and at "
            "origins.<name>.content_url in the settings. Nothing is lost: the next peek asks again."
        ),
    ),
    Reason.RECIPIENT_UNKNOWN: (
        "plain",
        "Nothing is known of this recipient",
        (
            "Names are compared letter by letter, upper and lower case too: look whether it is spelled as the producer spells it."
        ),
    ),
}
"""Why a peek answers what it answers, and what to do."""


async def mailbox(visit: Visit) -> ConsoleReply:
    name = visit.place["recipient"]
    check_mailbox(visit, name)
    state, before = visit.asked("state"), visit.number("before")
    explanation, history, place = await asyncio.gather(
        visit.hub.get(Explanation, "recipients", name, "explain"),
        _read_history(visit, name, state, before),
        visit.hub.maybe(ShownPlace, "recipients", name, "partition"),
    )
    return page(
        visit,
        name,
        visit.moving("why", why(explanation)),
        visit.moving("waiting", _waiting(visit, explanation)),
        visit.moving("bundles", _bundles(explanation)),
        _history(visit, history, state, first=before is None),
        above=_above(visit, name, place),
    )


async def _read_history(visit: Visit, name: str, state: str | None, before: int | None) -> ShownHistory:
    """A page of it; nothing for a stream, which sends no history."""
    if visit.again:
        return ShownHistory(messages=())
    given = {"before": before or _NEWEST, "state": state, "limit": _ROWS, "without_data": True}
    return await visit.hub.get(ShownHistory, "recipients", name, "messages", **given)


def check_mailbox(visit: Visit, name: str) -> None:
    if not visit.visitor.may_open(name):
        raise Forbidden("Your token is not for this recipient.")


def _above(visit: Visit, name: str, place: ShownPlace | None) -> Child:
    where = None if place is None else tag("span", f"partition {place.partition}", class_="soft")
    if not visit.visitor.operates:
        return where
    return (
        where,
        tag("a", "Purge…", href=at("do", "purge", recipient=name), class_="button"),
        tag("a", "Erase…", href=at("do", "erase", recipient=name), class_="button danger"),
    )


def why(explanation: Explanation) -> Markup:
    """The reason in plain words, and what to do."""
    tone, title, advice = _ADVICE[explanation.reason]
    return note(tone, tag("p", explanation.text), tag("p", advice, class_="soft"), title=title)


def _waiting(visit: Visit, explanation: Explanation) -> Markup:
    total = sum(one.messages for one in explanation.waiting)
    rows = [
        (one.origin, one.kind, whole(one.messages), relative(one.oldest), _purge_link(visit, one.origin, one.kind))
        for one in explanation.waiting
    ]
    inner = table(
        ("Origin", "Kind", "#Messages", "Oldest", ""),
        rows,
        empty="No cabinet has waiting messages.",
        caption="What waits",
    )
    return section("What waits", inner, aside=tag("b", counted(total, "message")) if total else None)


def _purge_link(visit: Visit, origin: str, kind: str) -> Child:
    if not visit.visitor.operates:
        return ""
    address = at("do", "purge", recipient=visit.place["recipient"], origin=origin, kind=kind)
    return tag("a", "Purge…", href=address, aria_label=f"Purge the cabinet {origin}, {kind}")


def _bundles(explanation: Explanation) -> Markup:
    rows = [
        (
            tag("code", one.bundle_id),
            one.origin,
            one.origin_group,
            whole(one.messages),
            _taken_by(one.taken_by),
            relative(one.opened_at),
        )
        for one in explanation.open_bundles
    ]
    empty = "No bundle is open: nobody has peeked without dequeuing."
    heads = ("Bundle", "Origin", "Group", "#Messages", "Taken by", "Taken")
    return section("Open bundle", table(heads, rows, empty=empty, caption="Open bundles"))


def _taken_by(name: str | None) -> Child:
    """The token whose peek opened it."""
    return tag("span", "no token was asked for", class_="none") if name is None else ("token ", tag("code", name))


def _history(visit: Visit, history: ShownHistory, state: str | None, *, first: bool) -> Markup:
    name = visit.place["recipient"]
    rows = [_message_row(name, message) for message in reversed(history.messages)]
    heads = ("State", "Message", "Kind", "Origin", "#Number", "Published", "Collected")
    inner = table(
        heads, rows, empty="No message in this state is kept." if state else "No message is kept.", caption="History"
    )
    return section("History", inner, pager(visit, history.next, name="before", first=first), aside=_states(name, state))


def _message_row(name: str, message: ShownLine) -> tuple[Child, ...]:
    return (
        badge(message.state),
        tag("code", link(short_id(message.id), "recipients", name, "messages", message.id), title=message.id),
        message.kind,
        message.origin,
        whole(message.sequence_number or 0),
        relative(message.published_at),
        relative(message.collected_at),
    )


def short_id(text: str) -> str:
    return text if len(text) <= 20 else f"{text[:8]}…{text[-8:]}"


def _states(name: str, chosen: str | None) -> Markup:
    options = [tag("option", "every state", value="", selected=chosen is None)]
    options += [
        tag("option", state.value.replace("_", " "), value=state.value, selected=state.value == chosen)
        for state in State
        if state is not State.DELAYED
    ]
    select = tag("select", options, name="state", aria_label="Only messages in this state", data_submit=True)
    go = tag("button", "Show", class_="quiet")
    return tag("form", select, go, method="get", action=at("recipients", name), class_="inline")


ROUTES = (ConsoleRoute("GET", "recipients/{recipient}", mailbox, lambda visitor: visitor.opens),)

"""Recipients with waiting messages: found by name, ordered by how many wait or for how long."""

from __future__ import annotations

from restante.console.pages.frame import page, pager
from restante.console.pages.shown_answers import ShownRecipients
from restante.console.view.figures import relative, whole
from restante.console.view.markup import Child, Markup, at, link, tag
from restante.console.view.tables import magnitude, on_its_way, section, table
from restante.console.web.console_routes import ConsoleRoute
from restante.console.web.exchanges import ConsoleReply, redirect
from restante.console.web.visits import Visit
from restante.errors import InvalidRequest


async def recipients(visit: Visit) -> ConsoleReply:
    """The page of recipients: all of them for an operator; for others those that their token names."""
    if not visit.visitor.operates:
        return _own(visit)
    order, search = visit.asked("order") or "waiting", visit.asked("search")
    found = await visit.remembered(
        ShownRecipients, "recipients", order=order, search=search, limit=visit.rows, after=visit.asked("after")
    )
    inner = tag("div", on_its_way(), class_="panel") if found is None else _table(found.answer, search)
    said = None if found is None else tag("p", "Counted ", relative(found.came_at), ".", class_="soft")
    return page(
        visit,
        "Recipients",
        _controls(order, search),
        visit.moving(
            "list", inner, said, pager(visit, None if found is None else found.answer.next, first=visit.offset == 0)
        ),
    )


def _controls(order: str, search: str | None) -> Markup:
    field = tag(
        "input", type="search", name="search", value=search or "", placeholder="Part of a name", aria_label="Part of a name",
        autocomplete="off", spellcheck="false",
    )  # fmt: skip
    choices = [("waiting", "Most waiting"), ("oldest", "Waiting longest")]
    options = [tag("option", label, value=value, selected=value == order) for value, label in choices]
    select = tag("select", options, name="order", aria_label="Order", data_submit=True)
    return tag(
        "form",
        field,
        select,
        tag("button", "Search"),
        method="get",
        action=at("recipients"),
        class_="controls",
        role="search",
    )


def _table(found: ShownRecipients, search: str | None) -> Markup:
    most = max((one.waiting for one in found.recipients), default=0)
    rows = [
        (
            link(one.recipient, "recipients", one.recipient),
            whole(one.waiting),
            magnitude(one.waiting, most),
            relative(one.oldest),
            link(whole(one.partition), "partitions", partition=one.partition),
        )
        for one in found.recipients
    ]
    heads = ("Recipient", "#Waiting", "", "Oldest", "#Partition")
    return tag(
        "div", table(heads, rows, empty=_empty(search), caption="Recipients with waiting messages"), class_="panel"
    )


def _empty(search: str | None) -> Child:
    if search is None:
        return "Nobody has waiting messages. A mailbox whose messages were all collected is opened by its name, above."
    return (
        "No recipient with waiting messages has “", tag("b", search), "” in its name. ",
        link("Open the mailbox of exactly this name", "recipients", search), ".",
    )  # fmt: skip


def _own(visit: Visit) -> ConsoleReply:
    names = visit.visitor.recipients
    if names is None:
        return page(
            visit,
            "Mailboxes",
            tag("p", "Your token is for every recipient. Open a mailbox by its name, above.", class_="empty"),
        )
    shown = names[visit.offset : visit.offset + visit.rows]
    following = visit.offset + visit.rows if visit.offset + visit.rows < len(names) else None
    rows = [(link(name, "recipients", name),) for name in shown]
    listed = section("Mailboxes of your token", table(("Recipient",), rows, caption="Your mailboxes"))
    return page(visit, "Mailboxes", listed, pager(visit, following, first=visit.offset == 0))


async def open_mailbox(visit: Visit) -> ConsoleReply:
    name = visit.asked("name")
    if name is None or name in (".", ".."):
        raise InvalidRequest("Type the name of a recipient.")
    return redirect(at("recipients", name))


ROUTES = (
    ConsoleRoute("GET", "recipients", recipients, lambda visitor: visitor.opens),
    ConsoleRoute("GET", "open", open_mailbox, lambda visitor: visitor.opens),
)

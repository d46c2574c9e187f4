"""The frame around every page: the bar on top, the way to the other pages, and what a page says when it has nothing."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from restante.console.view.markup import BASE, Child, Markup, at, join, tag
from restante.console.web.exchanges import ConsoleReply
from restante.console.web.visits import Visit
from restante.version import __version__

Entry = tuple[str, str]
_UNAVAILABLE = 503


def entries(visit: Visit) -> Iterator[Entry]:
    """The pages that the visitor may open: name and path. Pages of extras that are not in use are left out."""
    visitor = visit.visitor
    if visitor.reads:
        yield "Overview", ""
        yield "Health", "health"
    if visitor.opens:
        yield ("Recipients" if visitor.operates else "Mailboxes"), "recipients"
    if visitor.looks:
        yield "Batches", "batches"
        yield "Consignments", "consignments"
        yield "Partitions", "partitions"
        yield "Producers", "producers"
        if visit.extras.nodes:
            yield "Nodes", "nodes"
    if visitor.works:
        yield "Groups", "groups"
    if visitor.has("worker"):
        yield "Actions", "actions"
    if visit.extras.jobs:
        yield "Jobs", "jobs"
    if visitor.operates:
        yield "Live", "live"
        yield "Settings", "settings"
        yield "Tokens", "tokens"


def page(visit: Visit, title: str, *children: Child, above: Child = None, status: int = 200) -> ConsoleReply:
    """A whole page. `above` stands beside its title."""
    head = tag(
        "div", tag("h1", title), tag("div", above, class_="aside") if above is not None else None, class_="title"
    )
    main = tag("main", head, _flash(visit), children, id="main", tabindex=-1)
    body = tag(
        "body", _skip(), _bar(visit), tag("div", _nav(visit), main, class_="frame"), _lost(), **_streaming(visit)
    )
    return ConsoleReply(whole(title, body), status)


def _streaming(visit: Visit) -> dict[str, str]:
    """Where the parts that move come from; a page without any has no stream."""
    if not visit.parts:
        return {}
    path = "/".join(quote(segment, safe="") for segment in visit.request.segments)
    query = {name: value for name, value in visit.request.query.items() if name not in ("done", "count")}
    return {"data_stream": at("stream", page=path, **query)}


def bare_page(
    title: str, *children: Child, status: int = 200, onward: str | None = None, away: bool = False
) -> ConsoleReply:
    """A page for those who are not signed in; `onward` is where it leads by itself, and `away` says that it stands for another."""
    body = tag("body", tag("main", children, id="main", class_="alone"), class_="bare", data_away=away)
    leads = None if onward is None else tag("meta", http_equiv="refresh", content=f"0; url={onward}")
    return ConsoleReply(whole(title, body, leads), status)


def whole(title: str, body: Markup, leads: Markup | None = None) -> bytes:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        leads,
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · Restante"),
        tag("link", rel="icon", href=f"{BASE}/assets/mark.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href=f"{BASE}/assets/console.css?{__version__}"),
        tag("script", src=f"{BASE}/assets/console.js?{__version__}", defer=True),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n".encode()


def _skip() -> Markup:
    return tag("a", "Skip to the content", href="#main", class_="skip")


def _bar(visit: Visit) -> Markup:
    visitor = visit.visitor
    who = "open: no token is asked for" if visitor.open else f"token {visitor.name}"
    out = (
        None if visitor.open else form(visit, ("sign-out",), tag("button", "Sign out", class_="quiet"), class_="inline")
    )
    return tag(
        "header",
        tag(
            "a",
            tag("img", src=f"{BASE}/assets/mark.svg", alt="", width=18, height=18),
            "Restante",
            href=BASE,
            class_="brand",
        ),
        tag("span", visit.hub.where, class_="where", title="The hub that this console shows"),
        _go_to() if visitor.opens else None,
        tag("span", who, class_="who", title=", ".join(visitor.roles)),
        out,
        class_="bar-top",
    )


def _go_to() -> Markup:
    field = tag(
        "input", type="search", name="name", placeholder="Open a mailbox  /", aria_label="Open a mailbox by its name",
        autocomplete="off", spellcheck="false", data_hotkey="/",
    )  # fmt: skip
    return tag("form", field, action=at("open"), method="get", class_="inline go-to", role="search")


def _nav(visit: Visit) -> Markup:
    here = visit.request.segments[0] if visit.request.segments else ""
    items = [
        tag("li", tag("a", name, href=at(path) if path else BASE, aria_current="page" if path == here else None))
        for name, path in entries(visit)
    ]
    return tag("nav", tag("ul", items), aria_label="Pages")


def _lost() -> Markup:
    return tag("div", "Not connected. Trying again…", id="lost", role="status", hidden=True)


def form(visit: Visit, action: tuple[str, ...], *children: Child, class_: str | None = None) -> Markup:
    """A form that changes something: it carries what no other site can know."""
    seal = tag("input", type="hidden", name="seal", value=visit.seal)
    return tag("form", seal, children, method="post", action=at(*action), class_=class_)


_DONE = {
    "withdraw": "The message was withdrawn.",
    "set-aside": "The message was set aside.",
    "release": "The message was released.",
    "delete-batch": "The batch was deleted.",
    "discard": "The consignment was discarded.",
    "reset": "The group was reset.",
    "pause": "The group is paused.",
    "resume": "The group goes on.",
    "delete-group": "The group was deleted.",
    "revoke": "The token was revoked.",
    "retry": "The action will be done again.",
    "give-up": "The action was given up.",
    "forget-job": "The job was forgotten.",
}
"""The sentence after a change, by its name: an address can choose the sentence, not write one."""

_COUNTED = {
    "purge": ("1 message was purged.", "{count} messages were purged."),
    "erase": ("1 message was erased for good.", "{count} messages were erased for good."),
    "file": ("1 run was merged.", "{count} runs were merged."),
    "expire": ("1 message had expired.", "{count} messages had expired."),
    "retain": ("1 message left history.", "{count} messages left history."),
    "drain": ("The node gives its shards away. 1 is left.", "The node gives its shards away. {count} are left."),
}
"""The sentences that say how many, of one and of any other number."""


def _flash(visit: Visit) -> Markup | None:
    done = visit.request.query.get("done", "")
    said = _counted(_COUNTED[done], visit.request.query.get("count", "")) if done in _COUNTED else _DONE.get(done)
    return None if said is None else tag("div", said, class_="note good", role="status")


def _counted(sentences: tuple[str, str], given: str) -> str:
    count = int(given) if given.isascii() and given.isdecimal() and len(given) <= 15 else 0
    return sentences[count != 1].format(count=f"{count:,}")


def pager(visit: Visit, following: str | int | None, *, name: str = "after", first: bool) -> Markup | None:
    """The links to the first page, and to the next; nothing where all is on one page."""
    if first and following is None:
        return None
    kept = {key: value for key, value in visit.request.query.items() if key not in (name, "done", "count")}
    here = visit.request.segments
    back = None if first else tag("a", "« First", href=at(*here, **kept), rel="first")
    on = None if following is None else tag("a", "Next »", href=at(*here, **{**kept, name: following}), rel="next")
    return tag("nav", back, on, class_="pager", aria_label="Pages of this list")


def problem_page(visit: Visit, title: str, text: str, *, status: int, details: Child = None) -> ConsoleReply:
    said = tag("div", tag("p", text), details, class_="note bad", role="alert")
    shards = tag("p", tag("a", "Which shard does not serve?", href=at("nodes")))
    asked = shards if visit.extras.nodes and status == _UNAVAILABLE else None
    return page(visit, title, said, asked, tag("p", tag("a", "Back to the start", href=BASE)), status=status)


__all__ = ["bare_page", "entries", "form", "join", "page", "pager", "problem_page", "whole"]

"""Pages for operators: live connections, the settings in force, and tokens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from restante.console.pages.frame import form, page, pager
from restante.console.pages.shown_answers import ShownClients, ShownSetting, ShownSettings, ShownToken, ShownTokens
from restante.console.view.figures import relative, whole
from restante.console.view.markup import Child, Markup, at, link, tag
from restante.console.view.tables import badge, note, section, table
from restante.console.web.console_routes import ConsoleRoute
from restante.console.web.exchanges import ConsoleReply
from restante.console.web.visits import Visit
from restante.errors import InvalidRequest
from restante.limits import KIB, MIB, TOKEN_NOTE_CHARACTERS_MAX
from restante.model.access.access import Role

_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_SIZES = ((1_024 * MIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))


async def live(visit: Visit) -> ConsoleReply:
    found = await visit.hub.get(ShownClients, "live", limit=visit.rows, after=visit.asked("after"))
    rows = [
        (
            link(one.recipient, "recipients", one.recipient),
            one.client or tag("span", "no name", class_="none"),
            relative(one.connected_at),
            whole(one.queued),
            whole(one.sent),
            tag("b", whole(one.dropped), class_="red") if one.dropped else "0",
            "from history" if one.replaying else "as it comes",
        )
        for one in found.clients
    ]
    heads = ("Recipient", "Client", "Connected", "#In its queue", "#Sent", "#Dropped", "Gets messages")
    empty = "Nobody is connected for live delivery."
    listed = tag("div", table(heads, rows, empty=empty, caption="Live connections"), class_="panel")
    return page(
        visit, "Live connections", visit.moving("list", listed), pager(visit, found.next, first=visit.offset == 0)
    )


# Settings


async def settings(visit: Visit) -> ConsoleReply:
    found = await visit.hub.get(ShownSettings, "settings")
    search = (visit.asked("search") or "").lower()
    rows = [
        (tag("code", one.key), (_value(one.value), _in_words(one)), _source(one.source))
        for one in found.settings
        if search in one.key.lower()
    ]
    field = tag(
        "input",
        type="search",
        name="search",
        value=search,
        placeholder="Part of a setting’s name",
        aria_label="Part of a setting’s name",
    )
    search_form = tag(
        "form", field, tag("button", "Search"), method="get", action=at("settings"), class_="controls", role="search"
    )
    listed = table(("Setting", "Value", "From"), rows, empty="No setting has this in its name.", caption="Settings")
    upkeep = [
        tag("a", label, href=at("do", change), class_="button")
        for change, label in (("file", "File now…"), ("expire", "Expire now…"), ("retain", "Retain now…"))
    ]
    said = tag(
        "p", "As the hub was started. Changes take effect when it starts again. Secrets are not shown.", class_="soft"
    )
    return page(visit, "Settings", said, search_form, tag("div", listed, class_="panel"), above=upkeep)


def _value(value: object) -> Child:
    if value is None:
        return tag("span", "not set", class_="none")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return ", ".join(map(str, value)) or tag("span", "none", class_="none")
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _in_words(one: ShownSetting) -> Child:
    """A number of seconds or bytes in a larger unit, if it is a whole number of those."""
    if isinstance(one.value, bool) or not isinstance(one.value, int | float):
        return None
    last = one.key.rpartition(".")[2]
    known = _SPANS if last.endswith("_seconds") else _SIZES if "bytes" in last.split("_") else ()
    fits = next(((size, unit) for size, unit in known if one.value >= size and one.value % size == 0), None)
    return None if fits is None else tag("span", f" {one.value / fits[0]:,.0f} {fits[1]}", class_="soft")


def _source(source: str) -> Child:
    return tag("span", source, class_="soft") if source == "default" else tag("b", source)


# Tokens


async def tokens(visit: Visit) -> ConsoleReply:
    return await _tokens(visit)


async def _tokens(visit: Visit, *said: Child, status: int = 200) -> ConsoleReply:
    found = await visit.hub.get(ShownTokens, "tokens", limit=visit.rows, after=visit.asked("after"))
    rows = [_token_row(visit, one) for one in found.tokens]
    heads = ("Token", "State", "Roles", "Only for", "Note", "Made", "Expires", "")
    listed = section(
        "Tokens",
        table(heads, rows, empty="There is no token.", caption="Tokens"),
        pager(visit, found.next, first=visit.offset == 0),
    )
    if visit.visitor.open:
        first = note(
            "plain",
            "This hub asks for no token. The first one closes it, and is made on its own machine: ",
            tag("code", "restante tokens create"),
            ".",
        )
        return page(visit, "Tokens", first, listed, status=status)
    return page(visit, "Tokens", *said, listed, _new(visit, refused=status >= 400), status=status)


def _token_row(visit: Visit, one: ShownToken) -> tuple[Child, ...]:
    bounds = [
        f"{name}: {', '.join(values)}"
        for name, values in (("origins", one.origins), ("recipients", one.recipients), ("groups", one.groups))
        if values is not None
    ]
    own = one.id == visit.visitor.name
    revoke = tag("a", "Revoke…", href=at("do", "revoke", token=one.id), aria_label=f"Revoke {one.id}")
    offered: Child = "yours" if own else revoke if one.state == "valid" else ""
    return (
        tag("code", one.id),
        badge(one.state),
        ", ".join(one.roles),
        "; ".join(bounds) or tag("span", "everything", class_="none"),
        one.note,
        relative(one.created_at),
        relative(one.expires_at, missing="never"),
        offered,
    )


_BOUNDS = (
    ("origins", "Publisher: only these origins"),
    ("recipients", "Recipient: only these mailboxes"),
    ("groups", "Worker: only these groups"),
)
_DAYS = (("", "never"), ("1", "in a day"), ("7", "in 7 days"), ("30", "in 30 days"), ("365", "in a year"))


def _new(visit: Visit, *, refused: bool) -> Markup:
    """The form for a new token; one that was refused keeps what was said."""
    asked, chosen = (visit.request.form, visit.request.lists.get("role", ())) if refused else ({}, ())
    bounds = [
        tag("label", label, tag("textarea", asked.get(name, ""), name=name, rows=2, aria_describedby="bounds"))
        for name, label in _BOUNDS
    ]
    given = {"type": "text", "name": "note", "value": asked.get("note"), "autocomplete": "off"}
    days = [tag("option", label, value=value, selected=value == asked.get("days")) for value, label in _DAYS]
    body = form(
        visit,
        ("tokens",),
        tag("fieldset", tag("legend", "Roles"), [_role(one, chosen=one.value in chosen) for one in Role]),
        bounds,
        tag("p", "A name on each line. Without names the role is for all of them.", class_="hint", id="bounds"),
        tag("label", "Note", tag("input", maxlength=TOKEN_NOTE_CHARACTERS_MAX, **given)),
        tag("label", "Expires", tag("select", days, name="days")),
        tag("button", "Make the token", class_="primary"),
        class_="wide",
    )
    return section("A new token", body)


def _role(role: Role, *, chosen: bool) -> Markup:
    box = tag("input", type="checkbox", name="role", value=role.value, checked=chosen)
    return tag("label", box, role.value, class_="check")


async def make_token(visit: Visit) -> ConsoleReply:
    roles = list(visit.request.lists.get("role", ()))
    if not roles:
        return await _tokens(visit, note("bad", "Choose at least one role. No token was made."), status=400)
    body: dict[str, object] = {"roles": roles, "note": visit.request.form.get("note", "")}
    for name in ("origins", "recipients", "groups"):
        lines = [line.strip() for line in visit.request.form.get(name, "").splitlines() if line.strip()]
        if lines:
            body[name] = lines
    days = visit.request.form.get("days", "")
    if days.isascii() and days.isdecimal() and len(days) <= 4:
        body["expires_at"] = (datetime.now(UTC) + timedelta(days=int(days))).isoformat()
    try:
        made = await visit.hub.do("POST", "tokens", body=body)
    except InvalidRequest as error:
        return await _tokens(visit, note("bad", error.message), status=400)
    shown = note(
        "good",
        tag("p", "Copy it now: it is not shown again."),
        tag("pre", tag("code", made["token"]), tabindex=0),
        title=f"Token {made['id']}",
    )
    return await _tokens(visit, shown, status=201)


ROUTES = (
    ConsoleRoute("GET", "live", live, lambda visitor: visitor.operates),
    ConsoleRoute("GET", "settings", settings, lambda visitor: visitor.operates),
    ConsoleRoute("GET", "tokens", tokens, lambda visitor: visitor.operates),
    ConsoleRoute("POST", "tokens", make_token, lambda visitor: visitor.operates),
)

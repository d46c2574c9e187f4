"""Signing in by a token, and what is said when there is no hub."""

from __future__ import annotations

from restante.console.pages.frame import bare_page
from restante.console.view.markup import BASE, Child, Markup, at, tag
from restante.console.web.asked_page import address_of
from restante.console.web.doors import HubAsker
from restante.console.web.exchanges import ConsoleReply, redirect
from restante.console.web.visits import ConsoleVisitor
from restante.errors import RestanteError
from restante.wire.problems import status_of


async def ask(hub: HubAsker, seal: str, page: str | None) -> ConsoleReply:
    """The form, which leads to the page that was asked for; a hub that asks for no token needs none."""
    try:
        await hub.get(ConsoleVisitor, "whoami")
    except RestanteError as error:
        if error.code != "unauthenticated":
            return unreachable(hub.where, error, at("sign-in", page=page))
        return bare_page("Sign in", *_form(hub.where, seal, page))
    return redirect(address_of(page))


def refused(where: str, seal: str, page: str | None, error: RestanteError) -> ConsoleReply:
    said = tag("p", error.message, class_="note bad", role="alert", id="refused")
    return bare_page("Sign in", *_form(where, seal, page, said), status=401)


def _form(where: str, seal: str, page: str | None, said: Child = None) -> tuple[Child, ...]:
    field = tag(
        "input", type="password", name="token", id="token", required=True, autocomplete="current-password",
        autofocus=True, spellcheck="false", aria_describedby="hint", placeholder="rst_…",
    )  # fmt: skip
    return (
        _brand(),
        tag("h1", "Sign in"),
        tag("p", "The hub at ", tag("b", where), " asks for a token.", class_="lead"),
        said,
        tag(
            "form",
            tag("input", type="hidden", name="seal", value=seal),
            tag("input", type="hidden", name="page", value=page) if page else None,
            tag("label", "Token", for_="token"),
            field,
            tag(
                "p",
                "An operator makes tokens with ",
                tag("code", "restante tokens create"),
                ".",
                class_="hint",
                id="hint",
            ),
            tag("button", "Sign in", class_="primary", type="submit"),
            method="post",
            action=at("sign-in"),
        ),
    )


def _brand() -> Markup:
    return tag("p", tag("img", src=f"{BASE}/assets/mark.svg", alt="", width=28, height=28), "Restante", class_="brand")


def come_in(address: str) -> ConsoleReply:
    """A page that leads on to another one at once, for visitors who followed a link of another site.

    Their browser keeps the cookie back until a page of the console asks. Without it they would seem to be new, and be given
    another cookie in place of the one that they signed in with.
    """
    on = tag("p", tag("a", "Open the console", href=address, class_="button"))
    return bare_page("Console", _brand(), on, onward=address)


def not_taken(error: RestanteError) -> ConsoleReply:
    """The answer to a request that is none of this console: a forged form, or one from before the console was started again."""
    return bare_page(
        "Not taken",
        _brand(),
        tag("h1", "That did not work"),
        tag("p", error.message, class_="note bad", role="alert"),
        tag("p", tag("a", "Back to the start", href=BASE, class_="button")),
        status=status_of(error.code),
    )


def unreachable(where: str, error: RestanteError, address: str | None) -> ConsoleReply:
    """The page where there is no hub. One that was only looked at comes by itself as soon as there is one."""
    by_itself = "The page comes by itself as soon as it answers."
    said = "Nothing was changed. What you did can be repeated when it answers." if address is None else by_itself
    return bare_page(
        "No hub",
        _brand(),
        tag("h1", "The hub cannot be asked"),
        tag("p", error.message, class_="note bad", role="alert"),
        tag("p", "This console shows the hub at ", tag("b", where), ". ", said),
        tag("p", tag("a", "Try again", href=address or BASE, class_="button")),
        status=503,
        away=address is not None,
    )

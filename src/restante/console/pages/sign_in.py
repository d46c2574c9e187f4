"""Signing in by a token, and what is said when there is no hub."""

from __future__ import annotations

from restante.console.view.frame import bare_page
from restante.console.view.markup import BASE, Child, Markup, at, tag
from restante.console.web.doors import HubAsker
from restante.console.web.exchanges import ConsoleReply, redirect
from restante.console.web.visits import ConsoleVisitor
from restante.errors import RestanteError


async def ask(hub: HubAsker, seal: str) -> ConsoleReply:
    """The form; a hub that asks for no token needs none."""
    try:
        await hub.get(ConsoleVisitor, "whoami")
    except RestanteError as error:
        if error.code != "unauthenticated":
            return unreachable(hub.where, error)
        return bare_page("Sign in", *_form(hub.where, seal))
    return redirect(BASE)


def refused(where: str, seal: str, error: RestanteError) -> ConsoleReply:
    said = tag("p", error.message, class_="note bad", role="alert", id="refused")
    return bare_page("Sign in", *_form(where, seal, said), status=401)


def _form(where: str, seal: str, said: Child = None) -> tuple[Child, ...]:
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


def unreachable(where: str, error: RestanteError) -> ConsoleReply:
    return bare_page(
        "No hub",
        _brand(),
        tag("h1", "The hub cannot be asked"),
        tag("p", error.message, class_="note bad", role="alert"),
        tag("p", "This console shows the hub at ", tag("b", where), ". The page can be loaded again at any time."),
        tag("p", tag("a", "Try again", href=BASE, class_="button")),
        status=503,
    )

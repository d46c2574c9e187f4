"""Signing in by a token: the cookie, the bounds of a session, and requests that were forged."""

from __future__ import annotations

import pytest

from restante.console.web.sessions import ConsoleSessions
from restante.limits import CONSOLE_IDLE_SECONDS, CONSOLE_SESSION_SECONDS, CONSOLE_SESSIONS_MAX
from restante.model.access.access import Role
from restante.server.serve import ServedHub
from tests.console.conftest import Guarded
from tests.console.visiting import Browsing


def test_a_visitor_without_a_token_is_asked_for_one(guarded: Guarded) -> None:
    browser = Browsing(guarded.running.url)
    shown = browser.get("", follow=False)
    assert (shown.status, shown.headers["location"]) == (303, "/console/sign-in")
    for path in ("/recipients", "/recipients/ada", "/tokens", "/do/erase?recipient=ada", "/nosuch"):
        assert str(browser.get(path, follow=False).headers["location"]).startswith("/console/sign-in?page=")
    assert "asks for a token" in browser.get("").page.text


def test_a_token_opens_the_console(guarded: Guarded) -> None:
    browser = Browsing(guarded.running.url)
    shown = browser.sign_in(guarded.secrets["operator"])
    assert (shown.status, shown.headers["location"]) == (303, "/console")
    assert browser.get("").page.text.count("Overview") >= 1


@pytest.mark.parametrize("path", ["/recipients/ada", "/recipients/a%2Fb%3Fc?state=waiting", "/batches?key=x%26y"])
def test_signing_in_leads_to_the_page_that_was_asked_for(guarded: Guarded, path: str) -> None:
    browser = Browsing(guarded.running.url)
    asked = browser.get(path).page.fields()
    assert browser.post("/sign-in", {**asked, "token": "rst_wrong"}).page.fields()["page"] == asked["page"]
    shown = browser.post("/sign-in", {**asked, "token": guarded.secrets["operator"]})
    assert shown.headers["location"] == f"/console{path}"


@pytest.mark.parametrize(
    "page",
    ["//evil.example", "https://evil.example/", "../v1/x", "\\\\evil.example", "x\r\nset-cookie: a=b", "%ED%A0%80"],
)
def test_signing_in_leads_nowhere_else(guarded: Guarded, page: str) -> None:
    browser = Browsing(guarded.running.url)
    fields = {"seal": browser.get("/sign-in").page.fields()["seal"], "page": page}
    shown = browser.post("/sign-in", {**fields, "token": guarded.secrets["operator"]})
    where = str(shown.headers["location"])
    assert where == "/console" or where.startswith("/console/")
    assert ".." not in where


def test_a_link_of_another_site_takes_nobodys_cookie_away(guarded: Guarded) -> None:
    """The browser keeps the cookie back then: to give it a new one would sign its owner out."""
    stranger = Browsing(guarded.running.url, headers={"sec-fetch-site": "cross-site"})
    for path in ("", "/recipients/ada?state=waiting", "/sign-in", "/nosuch"):
        shown = stranger.get(path)
        assert (shown.status, shown.headers["set-cookie"]) == (200, None)
        leads = [one["content"] for one in shown.page.of("meta") if one.get("http-equiv") == "refresh"]
        assert leads == [f"0; url=/console{path}"]


def test_the_cookie_is_out_of_reach_for_scripts_and_other_sites(guarded: Guarded) -> None:
    browser = Browsing(guarded.running.url)
    cookie = str(browser.sign_in(guarded.secrets["operator"]).headers["set-cookie"])
    for part in ("HttpOnly", "SameSite=Strict", "Path=/console", f"Max-Age={CONSOLE_SESSION_SECONDS:.0f}"):
        assert part in cookie
    assert "Secure" not in cookie
    assert guarded.secrets["operator"] not in cookie


def test_over_tls_the_cookie_is_secure(guarded: Guarded) -> None:
    browser = Browsing(guarded.running.url, headers={"x-forwarded-proto": "https"})
    assert str(browser.sign_in(guarded.secrets["operator"]).headers["set-cookie"]).endswith("; Secure")


def test_signing_in_gives_another_cookie_than_before(guarded: Guarded) -> None:
    browser = Browsing(guarded.running.url)
    browser.get("/sign-in")
    before = browser.cookie
    browser.sign_in(guarded.secrets["operator"])
    assert before is not None
    assert browser.cookie != before


@pytest.mark.parametrize("token", ["", "x", "rst_abcdefgh_" + "A" * 43, "r\x00st", "ä", "x" * 5_000])
def test_a_wrong_token_is_refused_and_not_repeated(guarded: Guarded, token: str) -> None:
    shown = Browsing(guarded.running.url).sign_in(token)
    assert shown.status == 401
    assert 'class="note bad"' in shown.body.decode()
    if len(token) > 2:
        assert token.encode() not in shown.body


def test_signing_out_ends_the_session(guarded: Guarded) -> None:
    browser = guarded.browser("operator")
    cookie = browser.cookie
    assert browser.post("/sign-out", {"seal": browser.seal()}).status == 303
    browser.cookie = cookie
    assert browser.get("", follow=False).headers["location"] == "/console/sign-in"


def test_a_revoked_token_is_signed_out(guarded: Guarded) -> None:
    secret = guarded.tokens.create(roles=[Role.READER])
    browser = Browsing(guarded.running.url)
    browser.sign_in(secret)
    assert browser.get("").status == 200
    guarded.tokens.revoke(secret[4:12])
    deadline = 100
    while browser.get("", follow=False).status != 303 and deadline:
        deadline -= 1
    assert browser.get("", follow=False).headers["location"] == "/console/sign-in"


def test_an_open_hub_needs_no_signing_in(hub: ServedHub) -> None:
    browser = Browsing(hub.url)
    assert browser.get("/sign-in", follow=False).headers["location"] == "/console"
    page = browser.get("").page
    assert "no token is asked for" in page.text
    assert "Sign out" not in page.text


FORGED = {
    "no seal": ({}, {}),
    "another seal": ({"seal": "0" * 64}, {}),
    "a seal that is no ASCII": ({"seal": "ä"}, {}),
    "another site": (None, {"sec-fetch-site": "cross-site"}),
    "another port": (None, {"sec-fetch-site": "same-site"}),
    "another origin": (None, {"origin": "https://evil.example"}),
    "no origin": (None, {"origin": "null"}),
}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_change_is_refused(guarded: Guarded, how: str) -> None:
    fields, headers = FORGED[how]
    browser = guarded.browser("operator")
    seal = {"seal": browser.seal()} if fields is None else fields
    before = browser.get("/recipients/bob").page.links
    answer = browser.post("/do/erase", {"recipient": "bob", "typed": "bob", "counted": "", **seal}, headers)
    assert (answer.status, "not from this session" in answer.page.text) == (403, True)
    assert browser.get("/recipients/bob").page.links == before
    assert browser.post("/tokens", {"role": "operator", **seal}, headers).status == 403
    assert browser.post("/sign-out", seal, headers).status == 403


def test_the_seal_of_one_session_is_nothing_in_another(guarded: Guarded) -> None:
    one, other = guarded.browser("operator"), guarded.browser("operator")
    answer = one.post("/do/erase", {"recipient": "bob", "typed": "bob", "counted": "", "seal": other.seal()})
    assert answer.status == 403


def test_a_form_is_bounded(guarded: Guarded) -> None:
    assert guarded.browser("operator").post("/tokens", {"note": "x" * 100_000}).status == 413


def test_a_session_ends_after_some_hours_and_after_an_hour_without_use() -> None:
    now = [0.0]
    sessions = ConsoleSessions(lambda: now[0])
    cookie = sessions.begin("secret")
    for _ in range(12):
        now[0] += CONSOLE_IDLE_SECONDS - 1
        if now[0] <= CONSOLE_SESSION_SECONDS:
            assert sessions.find(cookie) is not None
    now[0] = CONSOLE_SESSION_SECONDS + 1
    assert sessions.find(cookie) is None

    idle = sessions.begin("secret")
    now[0] += CONSOLE_IDLE_SECONDS + 1
    assert sessions.find(idle) is None


def test_a_stream_does_not_keep_a_session_alive() -> None:
    now = [0.0]
    sessions = ConsoleSessions(lambda: now[0])
    cookie = sessions.begin("secret")
    for _ in range(10):
        now[0] += CONSOLE_IDLE_SECONDS / 5
        sessions.find(cookie, using=False)
    assert sessions.find(cookie) is None


def test_sessions_are_bounded_and_the_one_unused_for_longest_goes() -> None:
    sessions = ConsoleSessions(lambda: 0.0)
    cookies = [sessions.begin(str(number)) for number in range(CONSOLE_SESSIONS_MAX)]
    sessions.find(cookies[0])
    sessions.begin("one more")
    assert sessions.find(cookies[0]) is not None
    assert sessions.find(cookies[1]) is None

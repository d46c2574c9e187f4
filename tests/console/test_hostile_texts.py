"""Names, bodies, kinds and notes that try to be markup: on every page they are text, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import quote

import pytest

import restante
from restante import JobReport, JobRunState, RunTable
from restante.console.pages.confirmation import is_typed
from restante.console.view.markup import at, tag
from restante.console.web.exchanges import POLICY
from restante.server.serve import ServedHub
from tests.console.conftest import Guarded
from tests.console.visiting import Browsing, ShownPage, served

PAYLOADS = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    '" autofocus onfocus=alert(1) x="',
    "<svg/onload=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "<!--<img src=x onerror=alert(1)>-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;",
    "{{7*7}}${7*7}<%=7*7%>",
    "<a href=javascript:alert(1)>x</a>",
    "<base href=//evil.example/>",
    "<style>*{display:none}</style>",
    "<form action=//evil.example><input name=seal>",
    "a/b/../../tokens",
    "%3Cscript%3E",
    "?x=1&y=2#z",
    "\u202egnp.exe",
    "\ufdfa\U0001d4b3 \uff1cscript\uff1e",
    "a b\u00a0c",
)
"""What people put into names to see whether it runs."""

NOW = datetime.now(UTC)
TABLE_OF = {one: RunTable(columns=(one, "figure"), rows=((one, 1),), title=one) for one in PAYLOADS}

SCRIPTS = {"/console/assets/console.js"}


def check_inert(page: ShownPage) -> None:
    """Nothing on a page runs but its own script, nothing loads or leads elsewhere, no style is written in it."""
    assert {str(one["src"]).partition("?")[0] for one in page.of("script")} == SCRIPTS
    for name, attributes in page.elements:
        assert name not in ("iframe", "object", "embed", "base", "style", "math", "template"), name
        for attribute, value in attributes.items():
            assert not attribute.startswith("on"), (name, attribute)
            assert attribute not in ("style", "srcdoc", "formaction"), (name, attribute)
            if attribute in ("href", "src", "action"):
                assert str(value).startswith(("/console", "#main")), (name, value)


@pytest.fixture(scope="module")
def littered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    """A hub where every text is hostile."""
    with served(tmp_path_factory.mktemp("littered")) as hub:
        _litter(hub)
        yield hub


def _litter(hub: ServedHub) -> None:
    with restante.connect(hub.url) as own:
        for payload in PAYLOADS:
            own.send(
                [
                    {
                        "recipient": payload,
                        "kind": payload,
                        "origin": payload[:50],
                        "data": {payload: payload},
                        "properties": {"p": payload},
                    },
                    {"recipient": payload, "text": payload, "kind": payload},
                    {"recipient": payload, "data": payload.encode(), "media_type": "text/html"},
                    {"recipient": payload, "data": payload.encode(), "media_type": "image/svg+xml"},
                ]
            )
            own.batches.open(payload).seal()
            own.consignment(payload)
            own.jobs.report(
                payload,
                JobReport(
                    run=1, state=JobRunState.FAILED, began_at=NOW, ended_at=NOW, text=payload, table=TABLE_OF[payload]
                ),
            )
            _put_group(Browsing(hub.url), payload)


def _put_group(browser: Browsing, payload: str) -> None:
    """A group, its action, its member and an action under way, each with the hostile name."""
    quoted = quote(payload, safe="")
    for method, path, body in (
        ("PUT", f"/v1/groups/{quoted}", {"actions": [payload]}),
        ("POST", f"/v1/groups/{quoted}/members", {"member": payload}),
        ("POST", f"/v1/actions/{quoted}", {"concerns": payload, "data": {payload: payload}}),
    ):
        answer = browser.ask(method, path, json.dumps(body).encode(), {"content-type": "application/json"})
        assert answer.status < 300, answer.body


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_hostile_name_is_text_in_its_mailbox_and_messages(littered: ServedHub, payload: str) -> None:
    browser = Browsing(littered.url)
    shown = browser.get(f"/recipients/{quote(payload, safe='')}")
    assert shown.status == 200
    check_inert(shown.page)
    assert payload.replace("\u202e", "\N{REPLACEMENT CHARACTER}").split()[0] in shown.page.text
    messages = [link for link in shown.page.links if "/messages/" in link]
    assert len(messages) == 5, "four messages and an action"
    for link in messages:
        message = browser.get(link)
        assert message.status == 200
        check_inert(message.page)
    check_inert(browser.get(f"/do/purge?recipient={quote(payload, safe='')}").page)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_hostile_names_of_groups_actions_and_jobs_are_text(littered: ServedHub, payload: str) -> None:
    browser, quoted = Browsing(littered.url), quote(payload, safe="")
    for path in (
        f"/groups/{quoted}",
        f"/groups/{quoted}/poison",
        f"/jobs/{quoted}",
        f"/do/reset?group={quoted}",
        f"/do/delete-group?group={quoted}",
        f"/do/forget-job?job={quoted}",
    ):
        shown = browser.get(path)
        assert shown.status == 200, path
        check_inert(shown.page)
        assert payload.replace("\u202e", "\N{REPLACEMENT CHARACTER}").split()[0] in shown.page.text


def test_lists_with_hostile_names_are_inert(littered: ServedHub) -> None:
    browser = Browsing(littered.url)
    for path in (
        "",
        "/recipients",
        "/recipients?order=oldest",
        "/batches",
        "/consignments",
        "/groups",
        "/actions",
        "/jobs",
        "/live",
    ):
        shown = browser.get(path)
        assert shown.status == 200
        check_inert(shown.page)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_hostile_address_is_inert(littered: ServedHub, payload: str) -> None:
    browser, quoted = Browsing(littered.url), quote(payload, safe="")
    for path in (
        f"/recipients?search={quoted}",
        f"/recipients?order={quoted}",
        f"/recipients?after={quoted}",
        f"/batches?key={quoted}",
        f"/batches/{quoted}",
        f"/groups/{quoted}",
        f"/partitions?partition={quoted}",
        f"/settings?search={quoted}",
        f"/do/{quoted}",
        f"/do/reset?group={quoted}",
        f"/?done={quoted}&count={quoted}",
        f"/{quoted}",
    ):
        shown = browser.get(path)
        assert shown.status < 500, path
        check_inert(shown.page)


def test_html_in_a_message_is_never_served_as_html(littered: ServedHub) -> None:
    browser = Browsing(littered.url)
    mailbox = browser.get(f"/recipients/{quote(PAYLOADS[0], safe='')}").page
    for link in (link for link in mailbox.links if "/messages/" in link):
        raw = browser.get(f"{link}/data")
        assert raw.headers["content-type"] == "application/octet-stream"
        assert raw.headers["content-disposition"].startswith("attachment")
        assert raw.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert raw.headers["x-content-type-options"] == "nosniff"
        assert browser.get(f"{link}/picture").status == 404


def test_hostile_notes_of_tokens_are_text(guarded: Guarded) -> None:
    browser = guarded.browser("operator")
    shown = browser.post("/tokens", {"seal": browser.seal(), "role": "reader", "note": PAYLOADS[2]})
    assert shown.status == 201
    check_inert(shown.page)
    assert PAYLOADS[2] in shown.page.text


def test_every_answer_has_the_guards(hub: ServedHub) -> None:
    browser = Browsing(hub.url)
    for path in ("", "/recipients", "/nosuch", "/recipients/ada", "/sign-in", "/assets/console.css", "/assets/nosuch"):
        headers = browser.get(path, follow=False).headers
        assert headers["content-security-policy"] == POLICY, path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin"
    assert "unsafe" not in POLICY
    assert "http" not in POLICY


def test_streams_carry_markup_that_is_escaped(littered: ServedHub) -> None:
    import http.client
    from urllib.parse import urlsplit

    parts = urlsplit(littered.url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    name = quote(quote(PAYLOADS[0], safe=""), safe="")
    connection.request("GET", f"/console/stream?page=recipients%2F{name}")
    answer = connection.getresponse()
    line = b""
    while not line.startswith(b"data: {"):
        line = answer.readline()
        assert line != b""
    sent = json.loads(line[6:])
    assert "<script" not in sent["html"]
    connection.close()


def test_markup_escapes_what_it_is_given() -> None:
    assert str(tag("p", "<b>", tag("i", "&"), title="\"'<")) == '<p title="&quot;&#x27;&lt;">&lt;b&gt;<i>&amp;</i></p>'
    assert str(tag("p", None, [1, ["two", None]], hidden=True, open=False)) == "<p hidden>1two</p>"
    assert str(tag("p", "a\x00b\x1b\ud800\u202e")) == "<p>a\ufffdb\ufffd\ufffd\ufffd</p>"
    assert at("recipients", "a/b ?", search="x&y") == "/console/recipients/a%2Fb%20%3F?search=x%26y"


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_mailbox_of_a_hostile_name_can_be_purged_by_what_the_page_shows(littered: ServedHub, payload: str) -> None:
    browser = Browsing(littered.url)
    page = browser.get(f"/do/purge?recipient={quote(payload, safe='')}").page
    typed = next(str(one["data-typed"]) for one in page.of("input") if one.get("data-typed") is not None)
    assert browser.confirm("purge", {"recipient": payload, "kind": "nothing of it"}, typed).status == 303


def test_the_name_to_type_is_what_the_page_shows() -> None:
    assert is_typed("a\ufffdb", "a\u202eb")
    assert is_typed("a\u202eb ", "a\u202eb")
    assert not is_typed("a b", "a\u202eb")
    assert not is_typed("", "a")


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" * 5_000, '{"n": 1e999}'])
def test_numbers_that_no_program_holds_spoil_no_page(littered: ServedHub, number: str) -> None:
    """JSON has them, so the hub takes them, and a page shows them as they came."""
    browser, own = Browsing(littered.url), f"n-{len(number)}-{number[:2]}"
    sent = f'{{"recipient": "numbers", "id": {json.dumps(own)}, "data": {number}}}'
    assert browser.ask("POST", "/v1/messages", sent.encode(), {"content-type": "application/json"}).status == 201
    shown = browser.get(f"/recipients/numbers/messages/{quote(own, safe='')}")
    assert shown.status == 200
    assert number in shown.page.text.replace("{ ", "{").replace(" }", "}")

"""Every page of the console: what it shows of a hub in use, for each role, and that lists are paged."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from urllib.parse import quote

import pytest

import restante
from restante.console.pages import ROUTES
from restante.limits import CONSOLE_SHOWN_BYTES_MAX
from restante.server.serve import ServedHub
from restante.settings import OriginSettings, ServerSettings, Settings
from tests.console.conftest import Guarded
from tests.console.test_hostile_texts import check_inert
from tests.console.visiting import Browsing, served


def _picture() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 14)) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    """A hub in which something of everything has happened."""
    claims = OriginSettings(content_url="http://127.0.0.1:9/")
    joint = OriginSettings(group="joint")
    settings = Settings(origins={"masters": joint, "details": joint, "claims": claims})
    with served(tmp_path_factory.mktemp("busy"), settings) as running:
        with restante.connect(running.url) as own:
            own.send([{"recipient": f"supplier-{number:03d}", "data": number} for number in range(130)])
            own.send(
                [
                    {
                        "recipient": "ada",
                        "id": _id(1),
                        "kind": "json",
                        "data": {"b": [1, 2], "a": "x<y"},
                        "properties": {"tenant": "north"},
                    },
                    {"recipient": "ada", "id": _id(2), "kind": "text", "text": "Dear Ada,\nhello."},
                    {
                        "recipient": "ada",
                        "id": _id(3),
                        "kind": "picture",
                        "data": _picture(),
                        "media_type": "image/png",
                    },
                    {
                        "recipient": "ada",
                        "id": _id(4),
                        "kind": "octets",
                        "data": bytes(range(256)),
                        "media_type": "application/octet-stream",
                    },
                    {"recipient": "ada", "id": _id(5), "kind": "long", "data": "x" * 300_000},
                    {"recipient": "ada", "id": _id(6), "kind": "check", "origin": "claims"},
                    {"recipient": "ada", "id": _id(7), "kind": "liar", "data": b"<script>", "media_type": "image/png"},
                ]
            )
            own.send([{"recipient": "eve", "origin": origin, "data": 1} for origin in ("masters", "details")])
            own.recipient("eve").peek(origins=["masters"])
            taken = own.recipient("supplier-000").peek()
            assert taken is not None
            taken.dequeue()
            with own.batches.open("night-7", notify="boss") as batch:
                own.send([{"recipient": f"slow-{number}", "data": number} for number in range(3)], batch=batch)
                batch.add(2)
            own.consignment("settlement").stage("writer-1", 0, [{"recipient": "zoe", "data": 1}])
            own.group("billing", kinds=["invoice"]).close()
        yield running


def _id(number: int) -> str:
    return f"0198c5a2-0000-7000-8000-{number:012d}"


@pytest.fixture
def visitor(busy: ServedHub) -> Browsing:
    return Browsing(busy.url)


def test_every_page_has_a_correlation_id(visitor: Browsing) -> None:
    for path in ("/console", "/console/nowhere", "/console/style.css"):
        shown = visitor.ask("GET", path, headers={"restante-correlation-id": "of-the-caller"})
        assert shown.headers.get_all("restante-correlation-id") == ["of-the-caller"], path


def test_the_overview_shows_what_goes_through(busy: ServedHub, visitor: Browsing) -> None:
    busy.desk.rates.take()
    page = visitor.get("").page
    for label in (
        "Messages in",
        "Collected",
        "Waiting",
        "Commit latency",
        "Requests",
        "Live connections",
        "Most waiting",
    ):
        assert label in page.text
    plots = [one for one in page.of("svg") if "plot" in str(one.get("class"))]
    assert len(plots) == 8
    assert all(str(one["aria-label"]).split(" over the last hour")[0] for one in plots)
    assert any(one.get("class") == "strip" for one in page.of("svg"))
    assert page.of("body")[0]["data-stream"] == "/console/stream?page="
    assert "night-7" in page.text


def test_what_is_wrong_comes_first(tmp_path_factory: pytest.TempPathFactory) -> None:
    from restante.settings import BoundSettings, HealthBounds, HealthSettings

    bounds = HealthBounds(disk_left=BoundSettings(yellow=101, red=100))
    with served(tmp_path_factory.mktemp("ill"), Settings(health=HealthSettings(bounds=bounds))) as running:
        running.desk.health.look(deeply=False)
        page = Browsing(running.url).get("").page
    assert "What is wrong" in page.text
    assert page.text.index("disk left") < page.text.index("Messages in")
    assert "Every part of the hub is well" not in page.text


def test_health_shows_flows_and_measures(visitor: Browsing) -> None:
    page = visitor.get("/health").page
    for name in ("Publish", "Collect", "store", "disk left", "unfiled runs"):
        assert name in page.text
    assert "nothing to measure" in page.text


def test_recipients_are_searched_ordered_and_paged(visitor: Browsing) -> None:
    first = visitor.get("/recipients?search=supplier").page
    names = [link for link in first.links if "/recipients/supplier-" in link]
    assert len(names) == 50
    following = next(link for link in first.links if "after=50" in link)
    second = visitor.get(following).page
    assert not set(names) & set(second.links)
    assert "search=supplier" in following
    assert any(link.endswith("search=supplier") for link in second.links)
    assert "No recipient" in visitor.get("/recipients?search=nobody-at-all").page.text
    assert visitor.get("/recipients?order=oldest").status == 200
    assert visitor.get("/recipients?order=loudest").status == 400


def test_a_mailbox_is_opened_by_its_name(visitor: Browsing) -> None:
    shown = visitor.get("/open?name=a%2Fb%20c", follow=False)
    assert shown.headers["location"] == "/console/recipients/a%2Fb%20c"
    assert visitor.get("/open?name=").status == 400


def test_a_mailbox_shows_cabinets_and_history(visitor: Browsing) -> None:
    page = visitor.get("/recipients/ada").page
    for text in ("What waits", "octets", "claims", "History", "7 messages", "partition"):
        assert text in page.text
    assert len([link for link in page.links if "/messages/" in link]) == 7
    only = visitor.get("/recipients/ada?state=collected").page
    assert "No message in this state is kept" in only.text


def test_history_is_paged_from_the_newest(visitor: Browsing, busy: ServedHub) -> None:
    with restante.connect(busy.url) as own:
        own.send([{"recipient": "long", "kind": f"k{number:02d}", "data": number} for number in range(60)])
    first = visitor.get("/recipients/long").page
    assert "k59" in first.text
    assert "k34" not in first.text.partition("History")[2].partition("History State")[2]
    following = next(link for link in first.links if "before=" in link)
    assert "k34" in visitor.get(following).page.text.partition("History")[2]


REASONS = {
    "ada": "Nothing is in the way",
    "supplier-000": "nothing waits",
    "nobody-ever": "Nothing is known of this recipient",
}


@pytest.mark.parametrize("name", REASONS)
def test_why_a_peek_answers_nothing_is_said_in_plain_words(visitor: Browsing, name: str) -> None:
    assert REASONS[name] in visitor.get(f"/recipients/{name}").page.text


def test_an_open_bundle_is_shown(visitor: Browsing) -> None:
    page = visitor.get("/recipients/eve").page
    assert "joint" in page.text
    assert "No bundle is open" not in page.text
    assert "No bundle is open" in visitor.get("/recipients/ada").page.text


def _message(visitor: Browsing, number: int) -> str:
    shown = visitor.get(f"/recipients/ada/messages/{_id(number)}")
    assert shown.status == 200
    check_inert(shown.page)
    return shown.body.decode()


def test_json_is_pretty(visitor: Browsing) -> None:
    text = _message(visitor, 1)
    assert '{\n  "b": [\n    1,\n    2\n  ],\n  "a": "x&lt;y"\n}' in text
    assert "tenant" in text
    assert "north" in text


def test_text_is_text(visitor: Browsing) -> None:
    assert "Dear Ada,\nhello." in _message(visitor, 2)


def test_a_picture_is_shown_and_is_inert(visitor: Browsing) -> None:
    assert f'src="/console/recipients/ada/messages/{_id(3)}/picture"' in _message(visitor, 3)
    picture = visitor.get(f"/recipients/ada/messages/{_id(3)}/picture")
    assert picture.headers["content-type"] == "image/png"
    assert picture.body == _picture()
    assert picture.headers["content-security-policy"] == "default-src 'none'; sandbox"


def test_octets_are_hexadecimal(visitor: Browsing) -> None:
    assert "00000040  40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f  @ABCDEFGHIJKLMNO" in _message(visitor, 4)


def test_what_is_long_is_cut(visitor: Browsing) -> None:
    text = _message(visitor, 5)
    assert len(text) < CONSOLE_SHOWN_BYTES_MAX + 10_000
    assert "293 KiB" in text
    assert len(visitor.get(f"/recipients/ada/messages/{_id(5)}/data").body) == 300_000


def test_a_claim_check_says_so(visitor: Browsing) -> None:
    assert "A claim check" in _message(visitor, 6)
    assert visitor.get(f"/recipients/ada/messages/{_id(6)}/data").status == 404


def test_what_only_says_that_it_is_a_picture_is_not_shown_as_one(visitor: Browsing) -> None:
    assert "/picture" not in _message(visitor, 7)
    assert visitor.get(f"/recipients/ada/messages/{_id(7)}/picture").status == 404


def test_a_message_that_is_not_there_is_a_page(visitor: Browsing) -> None:
    shown = visitor.get(f"/recipients/ada/messages/{_id(99)}")
    assert shown.status == 404
    assert "Not found" in shown.page.text


def test_batches_show_progress_and_the_slow(visitor: Browsing) -> None:
    listed = visitor.get("/batches").page
    assert "night-7" in listed.text
    own = next(link for link in listed.links if "/batches/" in link)
    page = visitor.get(own).page
    for text in ("slow-0", "slow-2", "5", "Items not acknowledged", "Who has not collected"):
        assert text in page.text
    assert visitor.get("/batches?state=complete").page.text.count("No batch has this key") == 1
    assert "night-7" in visitor.get("/batches?key=night-7").page.text


def test_consignments_show_what_is_staged(visitor: Browsing) -> None:
    listed = visitor.get("/consignments").page
    own = next(link for link in listed.links if "/consignments/" in link)
    page = visitor.get(own).page
    for text in ("settlement", "writer-1", "Discard", "open"):
        assert text in page.text


def test_partitions_and_producers(visitor: Browsing, busy: ServedHub) -> None:
    page = visitor.get("/partitions").page
    assert len([link for link in page.links if "/producers?partition=" in link]) == 16
    assert f"One node owns every partition: {busy.url}." in page.text
    assert "Partition 3" in visitor.get("/partitions?partition=3").page.text
    assert visitor.get("/partitions?partition=99").status == 404
    assert "No producer numbers" in visitor.get("/producers").page.text
    numbered = {"restante-producer-group": "7", "restante-owner-level": "0", "restante-published-sequence": "0"}
    body = b'{"messages": [{"recipient": "ada", "data": 1}]}'
    given = {"content-type": "application/json", **numbered}
    partition = restante.connect(busy.url).partition_of("ada")
    assert visitor.ask("POST", f"/v1/partitions/{partition}/parcels", body, given).status == 201
    assert "#" not in visitor.get(f"/producers?partition={partition}").page.text
    assert "Owner level" in visitor.get(f"/producers?partition={partition}").page.text


def test_groups_show_lag_and_members(visitor: Browsing, busy: ServedHub) -> None:
    with restante.connect(busy.url) as own, own.group("readers", member="worker-1") as group:
        pages = iter(group.pages())
        next(pages)
        assert "readers" in visitor.get("/groups").page.text
        page = visitor.get("/groups/readers").page
        for text in ("Lag by partition", "worker-1", "Held by", "Reset…", "Pause…"):
            assert text in page.text
        assert any("columns" in str(one.get("class")) for one in page.of("svg"))
        assert "State running" in page.text
    assert "State nobody" in visitor.get("/groups/readers").page.text
    assert visitor.get("/groups/nosuch").status == 404


def test_live_settings_and_tokens(visitor: Browsing) -> None:
    assert "Nobody is connected" in visitor.get("/live").page.text
    settings = visitor.get("/settings").page
    assert "server.console" in settings.text
    assert "feed_retention_seconds 604800 7 d" in settings.text
    assert "data_bytes_max 1048576 1 MiB" in settings.text
    assert "partition_count" not in visitor.get("/settings?search=console").page.text
    assert "restante tokens create" in visitor.get("/tokens").page.text


def test_every_page_is_answered_quickly_and_inert(visitor: Browsing) -> None:
    seen: set[str] = set()
    ahead = ["/console"]
    while ahead:
        path = ahead.pop()
        if path in seen or len(seen) > 120:
            continue
        seen.add(path)
        shown = visitor.get(path)
        if not str(shown.headers["content-type"]).startswith("text/html"):
            continue
        assert shown.status == 200, path
        check_inert(shown.page)
        ahead += [link for link in shown.page.links if link.startswith("/console") and "?after" not in link]
    assert len(seen) > 100


def test_the_console_can_be_turned_off(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = Settings(server=ServerSettings(console=False))
    with served(tmp_path_factory.mktemp("off"), settings) as running:
        assert Browsing(running.url).ask("GET", "/console").status == 404


def test_only_what_is_there_is_served(visitor: Browsing) -> None:
    assert visitor.ask("PUT", "/console/recipients").status in (404, 405)
    assert visitor.ask("GET", "/consoles").status == 404
    head = visitor.ask("HEAD", "/console")
    assert (head.status, head.body) == (200, b"")
    style = visitor.get("/assets/console.css")
    again = visitor.ask("GET", "/console/assets/console.css", headers={"if-none-match": style.headers["etag"]})
    assert again.status == 304


OFFERED = {
    "operator": {
        "Overview",
        "Health",
        "Recipients",
        "Batches",
        "Consignments",
        "Partitions",
        "Producers",
        "Groups",
        "Actions",
        "Live",
        "Settings",
        "Tokens",
    },
    "reader": {"Overview", "Health", "Batches", "Consignments", "Partitions", "Producers", "Groups"},
    "publisher": {"Batches", "Consignments", "Partitions", "Producers"},
    "recipient": {"Mailboxes"},
    "ada": {"Mailboxes"},
    "worker": {"Groups", "Actions"},
}


@pytest.mark.parametrize("role", OFFERED)
def test_a_role_is_offered_what_it_may_see_and_nothing_else(guarded: Guarded, role: str) -> None:
    browser = guarded.browser(role)
    page = browser.get("").page
    names = {
        "Overview",
        "Health",
        "Recipients",
        "Mailboxes",
        "Batches",
        "Consignments",
        "Partitions",
        "Producers",
        "Groups",
        "Actions",
        "Live",
        "Settings",
        "Tokens",
    }
    offered = {text for text in page.texts if text in names}
    assert OFFERED[role] <= offered
    for path, name in (
        ("/health", "Health"), ("/batches", "Batches"), ("/consignments", "Consignments"), ("/partitions", "Partitions"),
        ("/producers", "Producers"), ("/groups", "Groups"), ("/actions", "Actions"), ("/live", "Live"), ("/settings", "Settings"), ("/tokens", "Tokens"),
    ):  # fmt: skip
        assert (browser.get(path).status == 200) == (name in OFFERED[role]), path
        assert (name in offered) == (name in OFFERED[role]), name


def test_a_recipient_sees_its_own_mailbox_and_no_other(guarded: Guarded) -> None:
    browser = guarded.browser("ada")
    assert "ada" in browser.get("/recipients").page.text
    own = browser.get("/recipients/ada").page
    assert not [link for link in own.links if "/do/" in link]
    assert browser.get("/recipients/bob").status == 403
    message = next(link for link in own.links if "/messages/" in link)
    assert browser.get(message).status == 200
    assert browser.get(message.replace("/ada/", "/bob/")).status == 403


@pytest.mark.parametrize("role", ["reader", "publisher", "recipient", "ada", "worker"])
def test_what_a_role_may_not_do_is_refused_all_the_same(guarded: Guarded, role: str) -> None:
    browser, operator = guarded.browser(role), guarded.browser("operator")
    seal = browser.get("").page.fields()["seal"]
    for change, told in (
        ("erase", {"recipient": "ada"}),
        ("purge", {"recipient": "ada"}),
        ("revoke", {"token": "x"}),
        ("file", {}),
    ):
        assert (
            browser.get(f"/do/{change}?" + "&".join(f"{key}={quote(value)}" for key, value in told.items())).status
            == 404
        )
        assert browser.post(f"/do/{change}", {**told, "typed": "ada", "counted": "", "seal": seal}).status == 404
    assert browser.post("/tokens", {"role": "operator", "seal": seal}).status == 403
    assert [link for link in operator.get("/recipients/ada").page.links if "/messages/" in link]


def test_every_route_of_the_console_is_for_somebody_and_not_for_nobody() -> None:
    from restante.console.web.visits import ConsoleVisitor

    nobody = ConsoleVisitor(name="x", roles=())
    operator = ConsoleVisitor(name="x", roles=("operator",))
    for route in ROUTES:
        assert route.may(operator), route.path
        if route.path and not route.path.startswith("do/"):
            assert not route.may(nobody), route.path


def test_an_estimated_batch_has_a_page_too(visitor: Browsing, busy: ServedHub) -> None:
    with restante.connect(busy.url) as own:
        batch = own.batches.open("roughly", counting="estimated")
        batch.add(3)
    shown = visitor.get(f"/batches/{batch.id}")
    assert shown.status == 200
    assert "estimated" in shown.page.text


def test_the_slowest_of_a_batch_come_first_over_all_pages(visitor: Browsing, busy: ServedHub) -> None:
    names = [f"turn-{(number * 7) % 60:02d}" for number in range(60)]
    with restante.connect(busy.url) as own:
        batch = own.batches.open("in turns")
        for name in names:
            own.send(recipient=name, data=1, batch=batch)
        taken = own.recipient(names[0]).peek()
        assert taken is not None
        taken.dequeue()
    first = visitor.get(f"/batches/{batch.id}").page
    following = next(link for link in first.links if "after=" in link)
    shown = [
        link for page in (first, visitor.get(following).page) for link in page.links if "/recipients/turn-" in link
    ]
    assert [link.rpartition("/")[2] for link in shown] == names[1:]


def test_an_open_bundle_says_who_took_it(visitor: Browsing, guarded: Guarded) -> None:
    assert "no token was asked for" in visitor.get("/recipients/eve").page.text
    with restante.connect(guarded.running.url, token=guarded.secrets["ada"]) as own:
        assert own.recipient("ada").peek() is not None
    with restante.connect(guarded.running.url, token=guarded.secrets["operator"]) as own:
        assert own.recipient("ada").peek() is not None, (
            "it is open already: another one gets the same, and took nothing"
        )
    page = guarded.browser("operator").get("/recipients/ada").page
    assert f"token {guarded.secrets['ada'][4:12]}" in page.text


def test_a_mailbox_of_large_messages_is_answered_without_their_data(visitor: Browsing, busy: ServedHub) -> None:
    with restante.connect(busy.url) as own:
        own.send([{"recipient": "large", "kind": f"k{number}", "text": "y" * 900_000} for number in range(20)])
    assert "k19" in visitor.get("/recipients/large").page.text
    page = visitor.ask("GET", "/v1/recipients/large/messages?without_data=true&limit=20")
    assert len(page.body) < 20_000
    assert b"yyy" not in page.body


def test_json_that_is_nested_deeply_spoils_no_page(visitor: Browsing, busy: ServedHub) -> None:
    deep = b"[" * 900 + b"]" * 900
    with restante.connect(busy.url) as own:
        own.send([{"recipient": "deep", "id": _id(50), "data": deep, "media_type": "application/json"}])
    assert visitor.get("/recipients/deep").status == 200
    assert visitor.get(f"/recipients/deep/messages/{_id(50)}").status == 200


def test_producers_of_the_first_partitions_are_said_to_be_those(tmp_path_factory: pytest.TempPathFactory) -> None:
    with served(tmp_path_factory.mktemp("wide"), Settings(partition_count=128)) as running:
        assert "Those of partitions 0 to 63" in Browsing(running.url).get("/producers").page.text

"""The console in a real browser: every page and every change, two roles, light and dark, narrow and wide."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import restante
from restante.client.surface import Hub
from restante.console.application import Console
from restante.console.web.doors import SameProcessDoor
from restante.model.access.access import Role
from restante.server.access.tokens import TokenFile
from restante.server.serve import ServedHub, Service, start
from tests.console.browsers import faults_of, opened_browser, picture, why_no_browser
from tests.console.test_hostile_texts import PAYLOADS
from tests.console.test_pages import _picture as small_picture

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [
    pytest.mark.skipif(why_no_browser() is not None, reason=str(why_no_browser())),
    pytest.mark.xdist_group("browser"),
]

PAGES = (
    "", "health", "recipients", "recipients?search=supplier", "recipients/ada", "recipients/nobody-ever", "batches",
    "consignments", "partitions", "producers", "groups", "groups/billing", "actions", "jobs", "jobs/collection-report",
    "jobs/collection-report/runs/7", "jobs/copy", "live", "settings", "tokens",
    "do/purge?recipient=ada", "do/erase?recipient=nobody-ever", "do/reset?group=billing", "nosuch",
)  # fmt: skip


class Scene:
    """A hub in use that asks for tokens, and a browser."""

    def __init__(self, running: ServedHub, tokens: dict[str, str], browser: Browser) -> None:
        self.running, self.tokens, self.browser = running, tokens, browser
        self.own: Hub = restante.connect(running.url, token=tokens["operator"])

    @contextmanager
    def page(
        self, role: str = "operator", *, width: int = 1280, scheme: str = "light", complains: bool = True
    ) -> Iterator[Page]:
        """A page of somebody who is signed in. Whatever the browser complains of fails the test."""
        context = self.browser.new_context(
            viewport={"width": width, "height": 860},
            color_scheme="dark" if scheme == "dark" else "light",
            base_url=self.running.url,
        )
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        page.goto("/console")
        page.get_by_label("Token").fill(self.tokens[role])
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(re.compile(r"/console(/(recipients|batches|groups))?$"))
        try:
            yield page
        finally:
            context.close()
        serious = [text for text in complaints if "status of 4" not in text]
        assert serious == [] or not complains


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("browser") / "data"
    folder.mkdir()
    file = TokenFile(folder / "tokens.json")
    tokens = {role.value: file.create(roles=[role], note=f"the {role.value}") for role in Role}

    def mount(service: Service) -> None:
        door = SameProcessDoor(service.application, "http://hub.example.org")
        service.mount(Console(door, cookie="restante_console", stream_seconds=0.3))

    with start(folder, prepare=mount) as running, opened_browser() as browser:
        scene = Scene(running, tokens, browser)
        _fill(scene.own)
        _let_time_pass(running)
        yield scene
        scene.own.close()


def _fill(own: Hub) -> None:
    names = [f"supplier-{number:03d}" for number in range(90)]
    kinds = ("invoice", "reading", "reminder")
    own.send(
        [
            {
                "recipient": name,
                "origin": ("billing", "metering")[place % 2],
                "kind": kinds[turn % 3],
                "data": {"number": turn},
            }
            for place, name in enumerate(names)
            for turn in range(1 + place * 7 % 23)
        ]
    )
    invoice = {
        "invoice": 17,
        "total": 129.5,
        "lines": [{"what": "chair", "price": 49.5}, {"what": "table", "price": 80}],
    }
    own.send(
        [
            {
                "recipient": "ada",
                "origin": "billing",
                "kind": "invoice",
                "data": invoice,
                "properties": {"tenant": "north"},
            },
            {"recipient": "ada", "origin": "billing", "kind": "note", "text": "Dear Ada,\nyour invoice is attached."},
            {"recipient": "ada", "origin": "scans", "kind": "scan", "data": small_picture(), "media_type": "image/png"},
            {
                "recipient": "ada",
                "origin": "scans",
                "kind": "octets",
                "data": bytes(range(256)),
                "media_type": "application/x",
            },
        ]
    )
    own.recipient("ada").peek(origins=["billing"])
    with own.batches.open("night-2030-01-31") as batch:
        own.send(
            [{"recipient": name, "origin": "metering", "kind": "reading", "data": 1} for name in names[:40]],
            batch=batch,
        )
    for name in names[:25]:
        for bundle in own.recipient(name).bundles(idle=0):
            bundle.dequeue()
    own.consignment("settlement-7").stage("writer-1", 0, [{"recipient": name, "data": 1} for name in names])
    with own.group("billing", kinds=["invoice"], member="worker-1") as group:
        pages = iter(group.pages())
        next(pages)
    _report_runs(own, names)


def _report_runs(own: Hub, names: list[str]) -> None:
    """A job with eight runs and a report, and one that failed."""
    now = datetime.now(UTC)
    columns = ("recipient", "published", "collected", "waiting", "collect_seconds_p50", "oldest_waiting_at")
    rows = tuple(
        (name, 20 + place % 7, 20 - place % 5, place % 9, 0.4 + place % 13 / 5, None)
        for place, name in enumerate(names)
    )
    table = restante.RunTable(columns=columns, rows=rows, rows_in_all=12_000, title="collection-report")
    for number in range(8):
        began = now - timedelta(hours=8 - number)
        over = began + timedelta(seconds=21 + number * 5 % 17)
        figures: dict[str, int | float | str | None] = {"report": "collection-report", "rows": 11_200 + 130 * number}
        state = restante.JobRunState.FAILED if number == 4 else restante.JobRunState.DONE
        report = restante.JobReport(
            run=number, state=state, began_at=began, ended_at=over, table=table,
            figures={} if number == 4 else figures, text="storage_full: no room for the table" if number == 4 else None,
        )  # fmt: skip
        own.jobs.report("collection-report", report, schedule="every 1 hour", next_at=now + timedelta(minutes=12))
    failed = restante.JobReport(
        run=1,
        state=restante.JobRunState.FAILED,
        began_at=now,
        ended_at=now,
        text="unavailable: the tables cannot be reached",
    )
    own.jobs.report("copy", failed, schedule="at 02:00 UTC", next_at=now + timedelta(hours=5))


def _let_time_pass(running: ServedHub) -> None:
    """An hour of samples, so that the plots show something."""
    import math

    rates = running.desk.rates
    rates.take()
    last, now = rates._samples[-1], time.time()
    rates._samples.clear()
    for number in range(720):
        wave = 1 + math.sin(number / 40) / 2 + math.sin(number / 7) / 9
        night = 3 if 400 < number < 470 else 1
        rates._samples.append(
            last._replace(
                at=now - 5 * (720 - number), accepted=int(900 * wave * night), collected=int(850 * wave),
                waiting=int(9_000 + 40 * (number - 400) * (number > 400)), commits=int(70 * wave), commit_ms=2 + wave * night,
                requests=int(160 * wave), request_ms=3 + 2 * wave, connections=int(20 + 8 * wave),
            )
        )  # fmt: skip
    rates._taken += 720


# Every page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(scene: Scene, scheme: str) -> None:
    with scene.page(scheme=scheme) as page:
        for path in (*PAGES, *_deeper(page)):
            page.goto(f"/console/{path}")
            assert faults_of(page) == [], path


def _deeper(page: Page) -> list[str]:
    """A batch, a consignment and the four messages of ada: their addresses are made by the hub."""
    found = []
    for path, part in (("batches", "/batches/"), ("consignments", "/consignments/"), ("recipients/ada", "/messages/")):
        page.goto(f"/console/{path}")
        links = page.locator(f"main a[href*='{part}']").evaluate_all(
            "links => links.map(link => link.getAttribute('href'))"
        )
        found += [str(link).removeprefix("/console/") for link in links[:4]]
    return found


@pytest.mark.parametrize("width", [380, pytest.param(760, marks=pytest.mark.long), 2560])
def test_no_page_is_wider_than_the_window(scene: Scene, width: int) -> None:
    with scene.page(width=width) as page:
        for path in (*PAGES, *_deeper(page)):
            page.goto(f"/console/{path}")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{path} is {wide} wide"


def test_a_narrow_page_can_be_read_too(scene: Scene) -> None:
    with scene.page(width=380, scheme="dark") as page:
        for path in ("", "recipients/ada", "do/purge?recipient=ada"):
            page.goto(f"/console/{path}")
            assert faults_of(page) == [], path


def test_a_narrow_page_shows_the_name_of_its_page(scene: Scene) -> None:
    with scene.page(width=380) as page:
        page.goto("/console/tokens")
        page.wait_for_function(
            """() => {
              const box = document.querySelector(".frame > nav a[aria-current]").getBoundingClientRect();
              return box.left >= 0 && box.right <= innerWidth + 1;
            }"""
        )
        assert page.evaluate("window.scrollY") == 0


def test_a_reader_sees_pages_without_changes(scene: Scene) -> None:
    with scene.page("reader") as page:
        names = page.locator(".frame > nav a").all_text_contents()
        assert names == ["Overview", "Health", "Batches", "Consignments", "Partitions", "Producers", "Groups", "Jobs"]
        box = page.get_by_role("button", name="Sign out").bounding_box()
        assert box is not None
        assert box["x"] + box["width"] > 1_240, "at the right, though there is no field to open a mailbox"
        for path in ("", "health", "batches", "groups/billing", "partitions", "consignments", "jobs/collection-report"):
            page.goto(f"/console/{path}")
            assert page.locator("a[href*='/do/']").count() == 0
            assert faults_of(page) == [], path
        page.goto("/console/tokens")
        assert page.get_by_role("heading", name="Not allowed").is_visible()


# What moves


def test_plots_and_figures_move_by_themselves(scene: Scene) -> None:
    with scene.page() as page:
        tile = page.locator(".tile", has_text="Messages in")
        before = tile.locator("svg").get_attribute("data-times")
        scene.own.send([{"recipient": "mover", "data": number} for number in range(500)])
        scene.running.desk.rates.take()
        page.wait_for_function(
            "before => document.querySelector('.tile svg').getAttribute('data-times') !== before",
            arg=before,
            timeout=10_000,
        )
        tile.locator("svg").hover()
        assert "per s" in str(page.locator(".reading").text_content())


def test_a_mailbox_moves_by_itself(scene: Scene) -> None:
    with scene.page() as page:
        page.goto("/console/recipients/newcomer")
        assert page.get_by_text("Nothing is known of this recipient").is_visible()
        scene.own.send(recipient="newcomer", kind="telegram", data=1)
        page.get_by_role("cell", name="telegram").first.wait_for(timeout=10_000)
        assert page.get_by_text("Nothing is in the way").is_visible()


def test_a_hub_that_is_gone_is_told(tmp_path: Path, scene: Scene) -> None:
    def mount(service: Service) -> None:
        service.mount(Console(SameProcessDoor(service.application, service.url), cookie="x", stream_seconds=0.2))

    with start(tmp_path / "gone", prepare=mount) as running:
        context = scene.browser.new_context()
        page = context.new_page()
        page.goto(f"{running.url}/console")
        page.wait_for_timeout(500)
        running.stop()
        page.get_by_text("Not connected").wait_for(timeout=15_000)
        context.close()


def test_a_page_moves_again_after_its_stream_was_answered_with_an_error(scene: Scene) -> None:
    """A proxy says 502 while the hub starts again: a browser does not try again after that, so the page does."""
    with scene.page(complains=False) as page:
        page.route("**/console/stream*", lambda route: route.fulfill(status=502))
        page.goto("/console/recipients/returning")
        page.get_by_text("Not connected. Trying again…").wait_for()
        page.unroute("**/console/stream*")
        page.locator("#lost").wait_for(state="hidden", timeout=15_000)
        scene.own.send(recipient="returning", kind="telegram", data=1)
        page.locator("#part-waiting").get_by_text("telegram").wait_for(timeout=10_000)


def test_pages_that_are_not_seen_keep_no_connection_from_those_that_are(scene: Scene) -> None:
    """A browser has six connections to a host. One without a screen shows all of its pages, so some are told that they are hidden."""
    with scene.page() as page:
        hidden = []
        for _ in range(7):
            hidden.append(page.context.new_page())
            hidden[-1].goto("/console/recipients/hidden")
            _seen(hidden[-1], seen=False)
        scene.own.send(recipient="hidden", kind="telegram", data=1)
        page.goto("/console/recipients/hidden")
        page.locator("#part-waiting").get_by_text("telegram").wait_for(timeout=10_000)
        assert hidden[0].locator("#part-waiting").get_by_text("telegram").count() == 0
        _seen(hidden[0], seen=True)
        hidden[0].locator("#part-waiting").get_by_text("telegram").wait_for(timeout=10_000)


def _seen(page: Page, *, seen: bool) -> None:
    page.evaluate(
        """hidden => {
          Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        not seen,
    )


def test_the_end_of_a_session_is_told_and_signing_in_leads_back(scene: Scene) -> None:
    with scene.page(complains=False) as page:
        page.route("**/console/stream*", lambda route: route.fulfill(status=401))
        page.goto("/console/recipients/ada")
        page.context.clear_cookies()
        page.get_by_text("Your session has ended.").wait_for(timeout=15_000)
        page.get_by_role("link", name="Sign in again").click()
        page.get_by_label("Token").fill(scene.tokens["operator"])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="ada").wait_for()


def test_text_that_is_selected_stays_selected_while_its_part_moves(scene: Scene) -> None:
    with scene.page() as page:
        scene.own.send(recipient="copied", kind="first", data=1)
        page.goto("/console/recipients/copied")
        cell = page.locator("#part-waiting td").first
        cell.wait_for()
        cell.evaluate("own => getSelection().selectAllChildren(own)")
        scene.own.send(recipient="copied", kind="second", data=1)
        page.wait_for_timeout(1_500)
        assert page.evaluate("getSelection().toString()") == cell.text_content()
        assert page.locator("#part-waiting").get_by_text("second").count() == 0
        page.evaluate("getSelection().removeAllRanges()")
        page.locator("#part-waiting").get_by_text("second").wait_for(timeout=10_000)


def test_a_job_moves_by_itself_and_is_forgotten(scene: Scene) -> None:
    began = datetime.now(UTC)
    running = restante.JobReport(run=1, state=restante.JobRunState.RUNNING, began_at=began)
    scene.own.jobs.report("export", running)
    with scene.page() as page:
        page.goto("/console/jobs")
        page.get_by_role("link", name="export").click()
        assert "running" in str(page.locator("#part-now").text_content())
        done = restante.JobReport(run=1, state=restante.JobRunState.DONE, began_at=began, ended_at=began)
        scene.own.jobs.report("export", done)
        page.locator("#part-now .badge", has_text="done").wait_for(timeout=10_000)
        page.get_by_role("link", name="Forget…").click()
        _confirmed(page, "Forget", "export")
        assert "was forgotten" in str(page.locator(".note.good").text_content())


# The reference at /docs


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (380, "dark"), pytest.param(2560, "light", marks=pytest.mark.long)]
)
def test_the_reference_of_the_routes_can_be_read_by_everybody(scene: Scene, width: int, scheme: str) -> None:
    with scene.page(width=width, scheme=scheme) as page:
        for path in ("/docs", "/docs/problems"):
            page.goto(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            page.evaluate(_TWO_OF_EACH_SECTION)
            assert faults_of(page) == [], path


_TWO_OF_EACH_SECTION = """
for (const section of document.querySelectorAll("main section"))
  for (const article of [...section.querySelectorAll("article")].slice(2)) article.remove();
"""
"""Routes are all of one shape, and axe takes a minute for all of them."""


def test_the_reference_is_searched_and_tried(scene: Scene) -> None:
    asked: list[str] = []
    with scene.page() as page:
        page.on("request", lambda request: asked.append(request.url))
        page.goto("/docs")
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.keyboard.press("/")
        page.keyboard.type("report run job")
        assert page.evaluate("scrollY") == 0, "what was found is seen"
        assert page.locator("#reportJob").is_visible()
        assert not page.locator("#publish").is_visible()
        assert not page.locator("h2#publishing").is_visible()
        page.keyboard.press("Escape")
        assert page.locator("#publish").is_visible()
        page.get_by_label("Search").fill("nothing has these words")
        assert page.get_by_text("Nothing has all of these words").is_visible()
        page.get_by_label("Search").fill("")
        page.get_by_label("Token").fill(scene.tokens["operator"])
        _tried(page, "whoAmI", "Send").get_by_text('"roles"').wait_for()
        page.locator("#dequeue .try summary").first.click()
        button = page.locator("#dequeue .try button").first
        button.click()
        assert button.text_content() == "This hub will do it. Send?"
        assert not any("/bundles/" in url for url in asked), "the first click sends nothing"
        button.click()
        page.locator("#dequeue .try pre").first.get_by_text("bundle_unknown").wait_for()
    assert all(url.startswith(scene.running.url) for url in asked)


def test_the_reference_begins_with_three_steps_that_work(scene: Scene) -> None:
    with scene.page() as page:
        page.goto("/docs")
        page.get_by_label("Token").fill(scene.tokens["operator"])
        for place, seen in enumerate(('"accepted": 1', '"text": "hello"')):
            page.locator(".step .try summary").nth(place).click()
            page.locator(".step .try button").nth(place).click()
            page.locator(".step .try pre").nth(place).get_by_text(seen).wait_for()
        page.locator(".step .try summary").nth(2).click()
        for _ in range(2):
            page.locator(".step .try button").nth(2).click()
        page.locator(".step .try pre").nth(2).get_by_text('"messages": 1').wait_for()


def _tried(page: Page, operation: str, label: str) -> Locator:
    """The answer to the first example of an operation."""
    page.locator(f"#{operation} .try summary").first.click()
    page.locator(f"#{operation} .try").first.get_by_role("button", name=label).click()
    return page.locator(f"#{operation} .try pre").first


# Keys


def test_the_console_is_used_by_keys_alone(scene: Scene) -> None:
    with scene.page() as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.keyboard.press("/")
        page.keyboard.type("ada")
        page.keyboard.press("Enter")
        page.wait_for_url("**/console/recipients/ada")
        page.keyboard.press("g")
        page.keyboard.press("h")
        page.wait_for_url("**/console/health")
        for name in ("partitions", "producers", "partitions"):
            page.keyboard.press("g")
            page.keyboard.press("p")
            page.wait_for_url(f"**/console/{name}")
        page.keyboard.press("g")
        page.keyboard.press("g")
        page.wait_for_url("**/console/groups")


def test_a_choice_is_made_by_keys_and_by_pointer(scene: Scene) -> None:
    with scene.page() as page:
        page.goto("/console/recipients/ada")
        states = page.get_by_label("Only messages in this state")
        states.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        assert "state=" not in page.url, "each step on the way is no choice yet"
        page.keyboard.press("Enter")
        page.wait_for_url("**/recipients/ada?state=collected")
        page.get_by_label("Only messages in this state").dispatch_event("pointerdown")
        page.get_by_label("Only messages in this state").select_option("expired")
        page.wait_for_url("**/recipients/ada?state=expired")


def test_a_change_is_confirmed_by_keys_alone(scene: Scene) -> None:
    scene.own.send([{"recipient": "kim", "kind": kind, "data": 1} for kind in ("a", "b")])
    with scene.page() as page:
        page.goto("/console/do/purge?recipient=kim")
        page.get_by_label("Only of this kind").focus()
        page.keyboard.type("a")
        page.keyboard.press("Enter")
        page.get_by_text("of kim with kind a").wait_for()
        page.get_by_label("To confirm").focus()
        for typed in ("kin", "kim"):
            page.keyboard.press("Control+A")
            page.keyboard.type(typed)
            page.keyboard.press("Enter")
        page.get_by_text("1 message was purged").wait_for()
    assert [one.kind for one in scene.own.recipient("kim").history(state="waiting").messages] == ["b"]


# Changes


def _confirmed(page: Page, label: str, name: str) -> None:
    """Type the name, and see that the button could not be pressed before."""
    from playwright.sync_api import expect

    button = page.get_by_role("button", name=label, exact=True)
    expect(button).to_be_disabled()
    page.get_by_label("To confirm").fill(name)
    button.click()


Change = tuple[str, str, str, str, Callable[[Hub], bool]]


def test_a_message_is_set_aside_released_and_withdrawn(scene: Scene) -> None:
    scene.own.send(recipient="mia", data=1)
    with scene.page() as page:
        page.goto("/console/recipients/mia")
        page.locator("a[href*='/messages/']").first.click()
        for link, label, said in (
            ("Set aside…", "Set aside", "was set aside"),
            ("Release…", "Release", "was released"),
            ("Withdraw…", "Withdraw", "was withdrawn"),
        ):
            page.get_by_role("link", name=link).click()
            assert "1 message" in str(page.locator(".note").first.text_content())
            _confirmed(page, label, "mia")
            assert said in str(page.locator(".note.good").text_content())
    assert [one.state.value for one in scene.own.recipient("mia").history().messages if one.state] == ["withdrawn"]


def test_a_mailbox_is_purged_and_erased(scene: Scene) -> None:
    scene.own.send([{"recipient": "noa", "kind": kind, "data": 1} for kind in ("a", "a", "b")])
    with scene.page() as page:
        page.goto("/console/recipients/noa")
        page.get_by_role("link", name="Purge…", exact=True).first.click()
        assert "3 messages" in str(page.locator(".note").first.text_content())
        page.get_by_label("Only of this kind").fill("a")
        page.get_by_role("button", name="Count again").click()
        assert "2 messages" in str(page.locator(".note").first.text_content())
        _confirmed(page, "Purge", "noa")
        assert "2 messages were purged" in str(page.locator(".note.good").first.text_content())
        page.get_by_role("link", name="Erase…").click()
        _confirmed(page, "Erase for good", "noa")
        assert "3 messages were erased" in str(page.locator(".note.good").first.text_content())
    assert scene.own.recipient("noa").history().messages == ()


def test_a_batch_and_a_consignment_are_given_up(scene: Scene) -> None:
    batch, consignment = scene.own.batches.open("old-batch"), scene.own.consignment("old-consignment")
    with scene.page() as page:
        page.goto(f"/console/batches/{batch.id}")
        page.get_by_role("link", name="Delete…").click()
        _confirmed(page, "Delete", "old-batch")
        assert "The batch was deleted" in str(page.locator(".note.good").text_content())
        page.goto(f"/console/consignments/{consignment.id}")
        page.get_by_role("link", name="Discard…").click()
        _confirmed(page, "Discard", "old-consignment")
        assert "discarded" in str(page.locator(".badge").first.text_content())


def test_a_group_is_paused_goes_on_is_reset_and_deleted(scene: Scene) -> None:
    with scene.own.group("ops", member="one") as group:
        next(iter(group.pages()))
    with scene.page() as page:
        page.goto("/console/groups/ops")
        for link, label, said in (
            ("Pause…", "Pause", "is paused"),
            ("Go on…", "Go on", "goes on"),
            ("Reset…", "Reset", "was reset"),
            ("Delete…", "Delete", "was deleted"),
        ):
            page.get_by_role("link", name=link).click()
            _confirmed(page, label, "ops")
            assert said in str(page.locator(".note.good").text_content())


def test_a_token_is_made_and_revoked(scene: Scene) -> None:
    with scene.page() as page:
        page.goto("/console/tokens")
        page.get_by_label("reader", exact=True).check()
        page.get_by_label("Note").fill("for the wall display")
        page.get_by_role("button", name="Make the token").click()
        secret = str(page.locator(".note.good pre").text_content())
        assert secret.startswith("rst_")
        page.get_by_role("link", name=f"Revoke {secret[4:12]}").click()
        _confirmed(page, "Revoke", secret[4:12])
        assert "was revoked" in str(page.locator(".note.good").text_content())


def test_housekeeping_is_done_now_and_people_sign_out(scene: Scene) -> None:
    with scene.page() as page:
        page.goto("/console/settings")
        page.get_by_role("link", name="File now…").click()
        _confirmed(page, "Do it now", "file")
        assert "runs were merged" in str(page.locator(".note.good").text_content())
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("heading", name="Sign in").wait_for()
        page.goto("/console/settings")
        assert page.get_by_role("heading", name="Sign in").is_visible()


def test_a_wrong_token_is_refused(scene: Scene) -> None:
    context = scene.browser.new_context(base_url=scene.running.url)
    page = context.new_page()
    page.goto("/console")
    page.get_by_label("Token").fill("rst_abcdefgh_" + "A" * 43)
    page.get_by_role("button", name="Sign in").click()
    assert "unknown, revoked or expired" in str(page.get_by_role("alert").text_content())
    assert faults_of(page) == []
    context.close()


def test_a_link_of_another_site_opens_its_page_and_signs_nobody_out(scene: Scene) -> None:
    with scene.page() as page:
        cookies = page.context.cookies()
        elsewhere = page.context.new_page()
        elsewhere.goto(scene.running.url.replace("127.0.0.1", "localhost") + "/docs")
        target = f"{scene.running.url}/console/recipients/ada"
        elsewhere.evaluate("target => { location.href = target; }", target)
        elsewhere.get_by_role("heading", name="ada").wait_for()
        page.reload()
        assert page.get_by_role("heading", name="Overview").is_visible()
        assert page.context.cookies() == cookies


# Texts that try to be something else


def test_hostile_texts_run_nothing_in_a_browser(scene: Scene) -> None:
    for payload in PAYLOADS:
        scene.own.send(recipient=payload, kind=payload, data={"x": payload}, properties={"p": payload})
    with scene.page() as page:
        page.add_init_script("window.ran = []; window.alert = (text) => window.ran.push(text);")
        page.goto("/console/recipients?order=oldest&search=script")
        for _ in range(2):
            assert page.evaluate("window.ran") == []
            links = page.locator("tbody a[href*='/recipients/']")
            for index in range(min(6, links.count())):
                page.goto("/console/recipients?order=oldest&search=script")
                links.nth(index).click()
                page.wait_for_timeout(400)
                assert page.evaluate("window.ran") == []
                page.locator("a[href*='/messages/']").first.click()
                assert page.evaluate("window.ran") == []


def test_the_policy_stops_what_is_written_into_a_page(scene: Scene) -> None:
    """Even if markup got through: no inline script, no handler, nothing from elsewhere."""
    context = scene.browser.new_context(base_url=scene.running.url)
    page = context.new_page()
    page.goto("/console/sign-in")
    page.evaluate(
        'document.body.innerHTML += \'<img src=x onerror="window.ran = 1"><img src="https://evil.example/x.png">\''
    )
    page.wait_for_timeout(300)
    assert page.evaluate("window.ran") is None
    context.close()


# Pictures for the documentation


def test_pictures_of_the_main_pages(scene: Scene, tmp_path: Path) -> None:
    _let_time_pass(scene.running)
    with scene.page() as page:
        page.wait_for_timeout(800)
        assert picture(page, tmp_path, "overview").stat().st_size > 20_000
        page.goto("/console/recipients/ada")
        picture(page, tmp_path, "mailbox")
        page.goto("/console/do/purge?recipient=supplier-080")
        picture(page, tmp_path, "purge")
        page.goto("/console/jobs/collection-report")
        picture(page, tmp_path, "job")

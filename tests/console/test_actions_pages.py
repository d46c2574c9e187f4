"""Actions in the console: what became of one, poison with its problem, done again and given up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from restante.console.pages.actions import gist
from restante.server.serve import ServedHub
from tests.console.test_hostile_texts import check_inert
from tests.console.visiting import Browsing, served

HOSTILE = "<img src=x onerror=alert(1)>"


class _Shop:
    """A group that charges, and a worker of it that reports what the tests say."""

    def __init__(self, url: str) -> None:
        self.browser = Browsing(url)
        self.call("PUT", "/v1/groups/shop", {"actions": ["charge"]})
        joined = self.call("POST", "/v1/groups/shop/members", {"member": "till-1"})
        self._member, self._held = joined["member_id"], {one["partition"]: one for one in joined["partitions"]}

    def call(self, method: str, path: str, body: object) -> Any:
        answer = self.browser.ask(method, path, json.dumps(body).encode(), {"content-type": "application/json"})
        assert answer.status < 300, answer.body
        return json.loads(answer.body) if answer.body else None

    def poison(self, concerns: str) -> str:
        """An action that could not be done; gives its id."""
        accepted = self.call(
            "POST", "/v1/actions/charge", {"concerns": concerns, "data": {"amount": 12, "note": HOSTILE}}
        )
        pages = self.call("POST", f"/v1/groups/shop/members/{self._member}/next", {"after": list(self._held.values())})
        page = next(page for page in pages["pages"] for change in page["changes"] if change["id"] == accepted["id"])
        number = next(one["sequence_number"] for one in page["changes"] if one["id"] == accepted["id"])
        problem = {"code": "retries_exhausted", "detail": f"The bank said {HOSTILE}"}
        outcome = {"sequence_number": number, "state": "poisoned", "attempts": 3, "problem": problem}
        held = self._held[page["partition"]]
        where = f"/v1/groups/shop/partitions/{page['partition']}/outcomes"
        self.call("POST", where, {"generation": held["generation"], "outcomes": [outcome]})
        return str(accepted["id"])

    def state(self, action: str) -> str:
        return str(json.loads(self.browser.ask("GET", f"/v1/actions/{action}").body)["state"])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    with served(tmp_path_factory.mktemp("actions")) as running:
        yield running


@pytest.fixture
def shop(running: ServedHub) -> _Shop:
    return _Shop(running.url)


def test_a_hub_without_actions_says_so(hub: ServedHub) -> None:
    assert "No group does actions" in Browsing(hub.url).get("/actions").page.text


def test_poison_is_shown_with_its_problem_and_data(shop: _Shop) -> None:
    own = shop.poison("order-1")
    for path in ("/actions", "/groups/shop/poison"):
        page = shop.browser.get(path).page
        check_inert(page)
        for text in ("charge", "order-1", "retries_exhausted", HOSTILE, '"amount": 12'):
            assert text in page.text
    one = shop.browser.get(f"/actions/one?id={own}").page
    check_inert(one)
    for text in ("poisoned", "3 attempts", "order-1"):
        assert text in one.text


def test_a_problem_is_told_by_the_line_that_says_what_happened() -> None:
    traceback = "Traceback (most recent call last):\n" + '  File "x.py", line 9, in f\n' * 50 + "ValueError: no bank\n"
    assert gist(traceback) == "ValueError: no bank"
    assert gist("The bank said\nno.") == "The bank said no."
    assert gist("x" * 1_000) == "x" * 300 + "…"
    assert gist("") == ""


def test_poison_is_done_again(shop: _Shop) -> None:
    own = shop.poison("order-2")
    told = {"group": "shop", "id": own, "concerns": "order-2"}
    assert shop.browser.confirm("retry", told, "wrong").status == 422
    assert shop.state(own) == "poisoned"
    assert shop.browser.confirm("retry", told, "charge").status == 303
    assert shop.state(own) == "accepted"


def test_poison_is_given_up(shop: _Shop) -> None:
    own = shop.poison("order-3")
    done = shop.browser.confirm("give-up", {"group": "shop", "id": own}, "charge")
    assert done.headers["location"] == "/console/groups/shop/poison?done=give-up"
    assert shop.state(own) == "failed"


def test_an_action_that_is_unknown_is_a_page(shop: _Shop) -> None:
    assert shop.browser.get("/actions/one?id=nosuch").status in (400, 404)
    assert shop.browser.get("/actions/one").status >= 400
    assert shop.browser.get("/groups/nosuch/poison").status == 404

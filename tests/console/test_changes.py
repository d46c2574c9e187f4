"""Changes: the dry run first, the effect in numbers, and done only when the name was typed."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

import restante
from restante.client.surface import Hub
from restante.console.pages.changes import CHANGES
from restante.errors import GroupUnknown
from restante.server.serve import ServedHub
from tests.console.conftest import Guarded
from tests.console.visiting import Browsing

NEVER_HERE = "0198c5a2-0000-7000-8000-00000000dead"


@pytest.fixture
def own(hub: ServedHub) -> Iterator[Hub]:
    with restante.connect(hub.url) as opened:
        yield opened


def _message(own: Hub, name: str) -> str:
    own.send(recipient=name, data=1)
    identity = own.recipient(name).history().messages[-1].id
    assert identity is not None
    return identity


def _state(own: Hub, name: str, identity: str) -> str:
    state = own.recipient(name).find(identity).state
    assert state is not None
    return state.value


@pytest.mark.parametrize(("change", "after"), [("withdraw", "withdrawn"), ("set-aside", "set_aside")])
def test_a_message_is_changed_when_its_recipient_was_typed(
    browser: Browsing, own: Hub, change: str, after: str
) -> None:
    name = f"m-{change}"
    identity = _message(own, name)
    told = {"recipient": name, "id": identity}
    assert browser.confirm(change, told, "wrong").status == 422
    assert browser.confirm(change, told, "").status == 422
    assert _state(own, name, identity) == "waiting"
    done = browser.confirm(change, told, name)
    assert done.status == 303
    assert _state(own, name, identity) == after
    assert "was withdrawn" in (text := browser.get(str(done.headers["location"])).page.text) or "was set aside" in text


def test_what_was_set_aside_is_released(browser: Browsing, own: Hub) -> None:
    identity = _message(own, "m-release")
    own.recipient("m-release").set_aside(identity)
    page = browser.get(f"/recipients/m-release/messages/{identity}").page
    assert any("/do/release" in link for link in page.links)
    browser.confirm("release", {"recipient": "m-release", "id": identity}, "m-release")
    assert _state(own, "m-release", identity) == "waiting"


def test_a_purge_is_counted_first_and_then_done(browser: Browsing, own: Hub) -> None:
    own.send([{"recipient": "p", "kind": kind, "data": 1} for kind in ("a", "a", "b")])
    considered = browser.get("/do/purge?recipient=p")
    assert "3 messages" in considered.page.text
    assert "2 messages of p with kind a" in browser.get("/do/purge?recipient=p&kind=a").page.text
    assert len(own.recipient("p").history(state="waiting").messages) == 3
    done = browser.confirm("purge", {"recipient": "p", "kind": "a"}, "p")
    assert "2 messages were purged" in browser.get(str(done.headers["location"])).page.text
    assert len(own.recipient("p").history(state="waiting").messages) == 1


def test_what_was_not_counted_is_counted_again_before_it_is_done(browser: Browsing, own: Hub) -> None:
    own.send([{"recipient": "q", "kind": kind, "data": 1} for kind in ("a", "b")])
    considered = browser.get("/do/purge?recipient=q&kind=a")
    fields = {**considered.page.fields(), "recipient": "q", "kind": "", "typed": "q"}
    shown = browser.post("/do/purge", fields)
    assert shown.status == 200
    assert "2 messages" in shown.page.text
    assert len(own.recipient("q").history(state="waiting").messages) == 2


def test_a_purge_of_everything(browser: Browsing, own: Hub) -> None:
    own.send([{"recipient": "all", "kind": kind, "data": 1} for kind in ("a", "b")])
    browser.confirm("purge", {"recipient": "all"}, "all")
    assert own.recipient("all").history(state="waiting").messages == ()


def test_a_mailbox_is_erased_for_good(browser: Browsing, own: Hub) -> None:
    own.send([{"recipient": "x y/z", "data": number} for number in range(4)])
    assert "4 messages" in browser.get(f"/do/erase?recipient={quote('x y/z', safe='')}").page.text
    browser.confirm("erase", {"recipient": "x y/z"}, "x y")
    assert len(own.recipient("x y/z").history().messages) == 4
    done = browser.confirm("erase", {"recipient": "x y/z"}, "x y/z")
    assert done.headers["location"] == "/console/recipients/x%20y%2Fz?done=erase&count=4"
    assert own.recipient("x y/z").history().messages == ()


def test_what_would_change_nothing_is_not_offered(browser: Browsing) -> None:
    page = browser.get("/do/erase?recipient=nobody-there").page
    assert "There is nothing to change" in page.text
    assert not [one for one in page.of("input") if one.get("name") == "typed"]


def test_a_batch_is_deleted(browser: Browsing, own: Hub) -> None:
    batch = own.batches.open("to-be-deleted")
    done = browser.confirm("delete-batch", {"batch": batch.id}, "to-be-deleted")
    assert (done.status, done.headers["location"]) == (303, "/console/batches?done=delete-batch")
    assert browser.get(f"/batches/{batch.id}").status == 404


def test_a_consignment_is_discarded(browser: Browsing, own: Hub) -> None:
    consignment = own.consignment("to-be-discarded")
    consignment.stage("w", 0, [{"recipient": "c", "data": 1}] * 1)
    page = browser.get(f"/do/discard?consignment={consignment.id}").page
    assert "1 staged message" in page.text
    browser.confirm("discard", {"consignment": consignment.id}, "to-be-discarded")
    assert "discarded" in browser.get(f"/consignments/{consignment.id}").page.text


def test_a_group_is_paused_resumed_reset_and_deleted(browser: Browsing, own: Hub) -> None:
    own.send([{"recipient": f"g-{number}", "data": number} for number in range(40)])
    with own.group("ops", member="one") as group:
        next(iter(group.pages()))
    told = {"group": "ops"}

    def status() -> object:
        return next(one for one in own.groups() if one.group == "ops")

    browser.confirm("pause", told, "ops")
    assert status().paused  # type: ignore[attr-defined]
    browser.confirm("resume", told, "ops")
    assert not status().paused  # type: ignore[attr-defined]
    assert status().lag > 0  # type: ignore[attr-defined]
    assert "16 partitions" in browser.get("/do/reset?group=ops").page.text
    browser.confirm("reset", told, "ops", to="end")
    assert status().lag == 0  # type: ignore[attr-defined]
    browser.confirm("reset", {**told, "to": "beginning", "partition": "3"}, "ops")
    assert {one.partition for one in status().partitions if one.lag} <= {3}  # type: ignore[attr-defined]
    browser.confirm("delete-group", told, "ops")
    with pytest.raises((GroupUnknown, StopIteration)):
        status()


@pytest.mark.parametrize("change", ["file", "expire", "retain"])
def test_housekeeping_is_done_now(browser: Browsing, change: str) -> None:
    done = browser.confirm(change, {}, change)
    assert done.headers["location"].startswith(f"/console/settings?done={change}&count=")


def test_tokens_are_made_and_revoked(guarded: Guarded) -> None:
    browser = guarded.browser("operator")
    fields = {
        "seal": browser.seal(),
        "role": ["reader", "recipient"],
        "recipients": "ada\nbob\n",
        "note": "desk",
        "days": "7",
    }
    made = browser.post("/tokens", fields)
    assert made.status == 201
    secret = next(text for text in made.page.texts if text.startswith("rst_"))
    token = guarded.tokens.find(secret[4:12])
    assert (token.note, token.recipients) == ("desk", ("ada", "bob"))
    assert token.expires_at is not None
    assert secret not in browser.get("/tokens").body.decode()

    assert browser.confirm("revoke", {"token": token.id}, "desk").status == 422
    assert browser.confirm("revoke", {"token": token.id}, token.id).status == 303
    assert guarded.tokens.find(token.id).revoked_at is not None


def test_a_wrong_token_is_explained(guarded: Guarded) -> None:
    browser = guarded.browser("operator")
    shown = browser.post("/tokens", {"seal": browser.seal(), "note": "no role"})
    assert shown.status == 400
    assert "note bad" in shown.body.decode()


def test_changes_that_cannot_be_made_are_pages(browser: Browsing) -> None:
    assert browser.get("/do/nosuch").status == 404
    assert browser.get("/do/erase").status == 400
    assert browser.get(f"/do/withdraw?recipient=ada&id={NEVER_HERE}").status == 404
    assert browser.get(f"/do/delete-batch?batch={NEVER_HERE}").status == 404
    assert browser.get("/do/reset?group=nosuch").status == 404


def test_a_change_is_never_made_by_looking(browser: Browsing, own: Hub) -> None:
    own.send(recipient="looked-at", data=1)
    browser.get("/do/erase?recipient=looked-at&typed=looked-at&counted=")
    assert len(own.recipient("looked-at").history().messages) == 1


def test_every_change_asks_for_something_to_be_typed() -> None:
    assert set(CHANGES) >= {"purge", "erase", "withdraw", "set-aside", "release", "discard", "reset", "revoke"}


def test_a_change_that_is_refused_says_why_and_can_be_repeated(hub: ServedHub, browser: Browsing) -> None:
    with restante.connect(hub.url) as own:
        own.send(recipient="taken", id="first", data=1)
        bundle = own.recipient("taken").peek()
        assert bundle is not None
        told = {"recipient": "taken", "id": "first"}
        assert "A bundle of this origin is open" in browser.get("/do/withdraw?recipient=taken&id=first").page.text
        refused = browser.confirm("withdraw", told, "taken")
        assert (refused.status, "is in the open bundle" in refused.page.text) == (409, True)
        assert "/console/recipients/taken/messages/first" in refused.page.links
        bundle.dequeue()
        own.send(recipient="taken", id="second", data=1)
    assert browser.confirm("withdraw", {**told, "id": "second"}, "taken").status == 303


def test_what_is_revoked_is_said(guarded: Guarded) -> None:
    own = guarded.secrets["worker"][4:12]
    assert "1 token (worker, a worker) would be" in guarded.browser("operator").get(f"/do/revoke?token={own}").page.text


def test_a_token_that_is_refused_keeps_what_was_said(guarded: Guarded) -> None:
    browser = guarded.browser("operator")
    said = {"seal": browser.seal(), "origins": "north\nsouth", "note": "the meters", "days": "7"}
    for roles, told in ([], "Choose at least one role."), (["reader"], "give that role too"):
        shown = browser.post("/tokens", {**said, "role": roles})
        assert (shown.status, told in shown.page.text) == (400, True)
        assert "north\nsouth" in shown.page.texts
        assert shown.page.fields()["note"] == "the meters"
        assert [one["value"] for one in shown.page.of("option") if "selected" in one] == ["7"]
        assert [one["value"] for one in shown.page.of("input") if "checked" in one] == roles
    made = browser.post("/tokens", {**said, "role": "publisher"})
    assert (made.status, made.page.fields()["note"]) == (201, "")

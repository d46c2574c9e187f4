"""Completed batches are told of until somebody takes it, over real sockets, across restarts and kills."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from restante import limits
from restante.calls.batches import DeleteBatch
from restante.calls.mailboxes import FindMessage, Peek
from restante.calls.publishing import Publish
from restante.hub.batches.memory import BatchMemory
from restante.hub.publishing.notice_delivery import load
from restante.model.access.access import Grant, Role
from restante.model.batches.notice import NOT_REACHED
from restante.model.mailboxes.answers import BundleAnswer
from restante.model.publishing.message import Message
from restante.settings import WebhookSettings
from tests.waiting import wait_until
from tests.webhooks.receiver import Call, Handler, Receiver, is_silent, receiving, says
from tests.webhooks.telling import SECRET, SETTINGS, office

ROOT = Path(__file__).parents[2]
DAY = 86_400.0
GREEDY, OTHER = (Grant(name, frozenset({Role.PUBLISHER}), frozenset({name})) for name in ("greedy", "other"))
CHILD = """
import sys
from pathlib import Path
from tests.webhooks.telling import office

with office(Path(sys.argv[1])) as watched:
    print(watched.complete(webhook=sys.argv[2]), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


def test_a_completion_is_told_signed_once(receiver: Receiver, tmp_path: Path) -> None:
    with office(tmp_path) as watched:
        batch = watched.complete(webhook=receiver.url)
        call = receiver.next()
        watched.attempted()
        (delivery,) = watched.deliveries(batch)
        assert watched.core.memory(BatchMemory).notices_delivered == {"webhook": 1}
        assert watched.core.memory(BatchMemory).notices_failed == {}
    payload = call.verified(SECRET)
    assert isinstance(payload, dict)
    assert payload.pop("completed_at").endswith("Z")
    assert payload == {"id": str(batch), "key": "night", "items": 3, "duplicates": 0, "duplicates_waiting": 0}
    assert (call.webhook_id, call.headers["content-type"]) == (str(batch), "application/json")
    assert (delivery.to, delivery.attempts, delivery.problem) == ("webhook", 1, None)
    assert delivery.delivered_at is not None
    assert (delivery.next_attempt_at, delivery.last_attempt_at) == (None, delivery.delivered_at)
    assert receiver.calls.empty()


def test_it_is_told_again_under_the_same_id_until_it_is_taken_and_each_attempt_shows(
    receiver: Receiver, tmp_path: Path
) -> None:
    receiver.answer = says(503, 302, 404, 204)
    problems = []
    with office(tmp_path) as watched:
        batch = watched.complete(webhook=receiver.url)
        for attempt in range(1, 4):
            watched.attempted()
            (delivery,) = watched.deliveries(batch)
            assert (delivery.attempts, delivery.delivered_at) == (attempt, None)
            assert delivery.last_attempt_at is not None
            assert delivery.next_attempt_at is not None
            pause = (delivery.next_attempt_at - delivery.last_attempt_at).total_seconds()
            assert 2 ** (attempt - 1) / 2 <= pause <= 2 ** (attempt - 1)
            problems.append(delivery.problem)
            watched.later(pause + 1.0)  # Signatures know whole seconds.
        watched.attempted()
        (delivery,) = watched.deliveries(batch)
        assert (delivery.attempts, delivery.problem, delivery.next_attempt_at) == (4, None, None)
        assert watched.core.memory(BatchMemory).notices_failed == {"webhook": 3}
    assert problems == [
        "answered 503",
        "answered 302, and redirects are not followed: give the final address",
        "answered 404",
    ]
    calls = [receiver.next() for _ in range(4)]
    assert {call.webhook_id for call in calls} == {str(batch)}
    assert {call.body for call in calls} == {calls[0].body}
    stamps = [int(call.headers["webhook-timestamp"]) for call in calls]
    assert stamps == sorted(set(stamps)), "each attempt is signed with its own time"


def test_a_receiver_that_wants_no_more_is_not_asked_again(receiver: Receiver, tmp_path: Path) -> None:
    receiver.answer = says(410)
    with office(tmp_path) as watched:
        batch = watched.complete(webhook=receiver.url)
        watched.attempted()
        (delivery,) = watched.deliveries(batch)
        assert (delivery.attempts, delivery.problem) == (1, "answered 410")
        assert (delivery.next_attempt_at, delivery.delivered_at) == (None, None)
        assert watched.core.memory(BatchMemory).notices._owners == {}


def test_what_has_failed_for_days_is_given_up(receiver: Receiver, tmp_path: Path) -> None:
    receiver.answer = says(500)
    with office(tmp_path) as watched:
        batch = watched.complete(webhook=receiver.url)
        watched.attempted()
        watched.later(limits.WEBHOOK_GIVE_UP_SECONDS)
        watched.attempted()
        (delivery,) = watched.deliveries(batch)
        assert (delivery.attempts, delivery.problem, delivery.next_attempt_at) == (2, "answered 500", None)


def test_a_restart_goes_on_where_it_was(receiver: Receiver, tmp_path: Path) -> None:
    receiver.answer = says(503)
    with office(tmp_path) as watched:
        batch = watched.complete(webhook=receiver.url)
        watched.attempted()
    receiver.answer = says(200)
    with office(tmp_path) as watched:
        watched.later(1.0)
        watched.attempted()
        (delivery,) = watched.deliveries(batch)
        assert (delivery.attempts, delivery.problem) == (2, None)
        assert delivery.delivered_at is not None
    assert receiver.next().webhook_id == receiver.next().webhook_id == str(batch)
    with office(tmp_path) as watched:
        assert load(watched.core) == 0
    assert receiver.calls.empty(), "what was taken is not told again"


def test_a_hub_killed_while_it_tells_tells_again_under_the_same_id(receiver: Receiver, tmp_path: Path) -> None:
    receiver.answer = is_silent
    command = [sys.executable, "-c", CHILD, str(tmp_path / "data"), receiver.url]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        first = receiver.next()
        assert child.stdout is not None
        batch = uuid.UUID(child.stdout.readline().strip())  # The webhook may be called before the child has said this.
        child.kill()
    receiver.answer = says(200)
    with office(tmp_path / "data") as watched:
        second = receiver.next()
        watched.attempted()
        (delivery,) = watched.deliveries(batch)
        assert (delivery.attempts, delivery.problem) == (1, None)
        assert delivery.delivered_at is not None
    assert first.webhook_id == second.webhook_id == str(batch)
    assert first.body == second.body


def test_a_silent_receiver_holds_up_nobody_but_those_behind_it(receiver: Receiver, tmp_path: Path) -> None:
    with receiving() as silent, office(tmp_path) as watched:
        silent.answer = is_silent
        for _ in range(20):
            watched.complete(webhook=silent.url)
        silent.next()
        batches = {str(watched.complete(webhook=receiver.url)) for _ in range(50)}
        assert {receiver.next().webhook_id for _ in range(50)} == batches
        assert silent.calls.empty(), "it is asked one thing at a time"
        assert watched.hub._background.running("notices") <= limits.WEBHOOKS_AT_ONCE_MAX + 1


def test_silent_receivers_of_one_owner_hold_up_neither_those_of_others_nor_a_message(
    receiver: Receiver, tmp_path: Path
) -> None:
    with ExitStack() as opened:
        silent = [opened.enter_context(receiving()) for _ in range(3 * limits.WEBHOOKS_OF_OWNER_MAX)]
        watched = opened.enter_context(office(tmp_path))
        for each in silent:
            each.answer = is_silent
            watched.complete(webhook=each.url, caller=GREEDY)
        wait_until(lambda: sum(each.calls.qsize() for each in silent) == limits.WEBHOOKS_OF_OWNER_MAX)
        batch = watched.complete(webhook=receiver.url, notify="operator", caller=OTHER)
        assert receiver.next().webhook_id == str(batch)
        while watched.deliveries(batch)[1].delivered_at is None:
            watched.attempted()
        assert sum(each.calls.qsize() for each in silent) == limits.WEBHOOKS_OF_OWNER_MAX


def test_two_owners_with_one_receiver_do_not_wait_for_each_other(receiver: Receiver, tmp_path: Path) -> None:
    receiver.answer = is_silent
    with office(tmp_path) as watched:
        first = {str(watched.complete(webhook=receiver.url, caller=GREEDY)) for _ in range(3)}
        assert receiver.next().webhook_id in first
        other = watched.complete(webhook=receiver.url, caller=OTHER)
        assert receiver.next().webhook_id == str(other)


def test_who_did_not_answer_shows_but_not_why_and_the_log_has_it(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def hangs_up(handler: Handler, _: Call) -> None:
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True

    receiver.answer = hangs_up
    with socket.socket() as taken, office(tmp_path) as watched:
        taken.bind(("127.0.0.1", 0))  # Nobody listens there, and nobody else can.
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        for url in (closed, receiver.url, "http://nobody.invalid/"):
            batch = watched.complete(webhook=url)
            watched.attempted()
            (delivery,) = watched.deliveries(batch)
            assert delivery.problem == NOT_REACHED
            assert delivery.next_attempt_at is not None
    assert "refused" in caplog.messages[0]
    assert "connection" in caplog.messages[1].lower()
    assert "nobody.invalid was not found" in caplog.messages[2]


def test_a_webhook_that_was_given_when_it_was_allowed_is_not_called_when_it_is_not(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answer = says(503)
    with office(tmp_path) as watched:
        batch = watched.complete(webhook=receiver.url)
        watched.attempted()
    receiver.next()
    with office(tmp_path, msgspec.structs.replace(SETTINGS, webhooks=WebhookSettings())) as watched:
        watched.later(1.0)
        watched.attempted()
        (delivery,) = watched.deliveries(batch)
        assert (delivery.attempts, delivery.problem) == (2, NOT_REACHED)
    assert "may not be called: 127.0.0.1 is not public" in caplog.messages[-1]
    assert receiver.calls.empty()


def test_the_message_to_notify_is_in_the_mailbox_once(tmp_path: Path) -> None:
    with office(tmp_path) as watched:
        batch = watched.complete(notify="operator")
        watched.attempted()
        (delivery,) = watched.deliveries(batch)
        assert (delivery.to, delivery.attempts, delivery.problem) == ("notify", 1, None)
        found = watched.hub.call(FindMessage("operator", str(uuid.uuid5(batch, "completed"))))
        assert (found.origin, found.kind) == ("restante", "batch_completed")
        answer = watched.hub.call(Peek("operator"))
        assert isinstance(answer, BundleAnswer)
        assert answer.message_count == 1
        data = json.loads(answer.table.column("data").to_pylist()[0] or b"")
        assert (data["id"], data["key"], data["items"]) == (str(batch), "night", 3)
        assert watched.core.memory(BatchMemory).notices_delivered == {"notify": 1}


def test_a_message_that_is_refused_is_given_up_with_the_reason(tmp_path: Path) -> None:
    with office(tmp_path) as watched:
        batch = uuid.uuid4()
        taken = str(uuid.uuid5(batch, "completed"))
        watched.hub.call(Publish.of(Message(recipient="operator", id=taken, data="of somebody else")))
        watched.complete(notify="operator", batch=batch)
        watched.attempted()
        (delivery,) = watched.deliveries(batch)
        assert (delivery.attempts, delivery.delivered_at, delivery.next_attempt_at) == (1, None, None)
        assert delivery.problem is not None
        assert "other content" in delivery.problem


def test_both_can_be_asked_for_and_one_does_not_wait_for_the_other(receiver: Receiver, tmp_path: Path) -> None:
    receiver.answer = is_silent
    with office(tmp_path) as watched:
        batch = watched.complete(webhook=receiver.url, notify="operator")
        watched.attempted()
        webhook, notify = watched.deliveries(batch)
        assert (webhook.to, webhook.attempts, notify.to) == ("webhook", 0, "notify")
        assert notify.delivered_at is not None


def test_a_deleted_batch_is_told_of_no_more(receiver: Receiver, tmp_path: Path) -> None:
    receiver.answer = says(503)
    with office(tmp_path) as watched:
        batch = watched.complete(webhook=receiver.url)
        watched.attempted()
        watched.hub.call(DeleteBatch(str(batch)))
        watched.later(DAY)
        watched.attempted()
        assert watched.core.memory(BatchMemory).notices._owners == {}
    receiver.next()
    assert receiver.calls.empty()


def test_who_asks_for_nothing_costs_no_thread(tmp_path: Path) -> None:
    with office(tmp_path) as watched:
        batch = watched.complete()
        assert watched.deliveries(batch) == ()
        assert watched.hub._background.running("notices") == 0


def test_closing_does_not_wait_for_a_silent_receiver(receiver: Receiver, tmp_path: Path) -> None:
    receiver.answer = is_silent
    with office(tmp_path) as watched:
        batch = watched.complete(webhook=receiver.url)
        receiver.next()
        closing = threading.Thread(target=watched.hub.close)
        closing.start()
        closing.join(limits.WEBHOOK_SECONDS_MAX / 2)
        assert not closing.is_alive()
    receiver.answer = says(200)
    assert receiver.calls.empty()
    with office(tmp_path) as watched:
        assert receiver.next().webhook_id == str(batch)


def test_a_hub_that_was_closed_says_nothing_more_of_a_receiver_that_breaks_off(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answer = is_silent
    with office(tmp_path) as watched:
        watched.complete(webhook=receiver.url)
        receiver.next()
        watched.hub.close()
        receiver.over.set()
        watched.attempted()
    assert caplog.messages == []

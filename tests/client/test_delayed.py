"""Delayed sends: kept aside durably, published when due, taken back by id until then."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import msgspec
import pyarrow as pa
import pytest

import restante
from restante import Message, State
from restante.assembly import open_store
from restante.calls.publishing import Publish
from restante.client.surface import sync
from restante.errors import InvalidMessage, InvalidRequest, MessageConflict, MessageUnknown, Overloaded
from restante.hub.doctor.doctor import examine
from restante.hub.door.hub import OpenHub
from restante.hub.engine.commit_request import Planned
from restante.hub.engine.core import MailboxAddress
from restante.hub.engine.plan import RequestDraft
from restante.hub.publishing.calls import publish_request
from restante.hub.publishing.delayed import plan_take_back
from restante.hub.publishing.delayed_memory import DelayedMemory
from restante.limits import DATA_BYTES_MAX
from restante.model.access.access import EVERYTHING
from restante.model.mailboxes.answers import Reason, Receipt
from restante.model.publishing.delay import DueKey
from restante.model.storage.keys import number_key
from restante.server.serve import ServedHub
from tests.client.conftest import SETTINGS
from tests.waiting import wait_until

FAR = datetime(2090, 1, 31, 12, tzinfo=UTC)
SECONDS = 20.0


def soon(seconds: float = 1.5) -> datetime:
    """So far off that a busy machine does what comes before it in time."""
    return datetime.now(UTC) + timedelta(seconds=seconds)


def shown(hub: sync.Hub, recipient: str = "ada") -> list[str | None]:
    return [message.id for message in hub.recipient(recipient).history().messages]


def test_it_is_seen_when_it_is_due_and_takes_its_number_then(either: sync.Hub) -> None:
    sent = Message(recipient="ada", text="later", id="later", visible_at=soon())
    receipt = either.send(sent)
    assert (receipt.accepted, receipt.delayed, receipt.partitions) == (1, 1, ())
    either.send(recipient="ada", text="now", id="now")
    assert shown(either) == ["now"]
    bundle = either.recipient("ada").peek()
    assert bundle is not None
    bundle.dequeue()
    while (came := either.recipient("ada").peek(wait=20)) is None:
        pass
    (message,) = came.messages
    assert (message.id, message.text, message.sequence_number) == ("later", "later", 3)
    assert message.published_at is not None
    assert sent.visible_at is not None
    assert message.published_at >= sent.visible_at
    assert (message.visible_at, message.state) == (None, State.WAITING)


def test_until_then_it_is_found_by_its_id_alone(either: sync.Hub) -> None:
    sent = {"kind": "k", "properties": {"a": "b"}, "data": {"n": 1}, "expires_at": FAR + timedelta(days=1)}
    either.send(recipient="ada", id="later", visible_at=FAR, **sent)  # type: ignore[arg-type]
    found = either.recipient("ada").find("later")
    assert (found.state, found.visible_at, found.sequence_number, found.published_at) == (
        State.DELAYED,
        FAR,
        None,
        None,
    )
    assert {name: getattr(found, name) for name in sent} == sent
    assert not shown(either)
    assert either.recipient("ada").peek() is None
    assert not [page for page in either.feed() if page.table.num_rows]
    assert sum(status.waiting for status in either.partitions()) == 0


def test_it_is_taken_back_by_its_id(either: sync.Hub) -> None:
    either.send(recipient="ada", text="x", id="later", visible_at=soon())
    either.recipient("ada").withdraw("later")
    with pytest.raises(MessageUnknown):
        either.recipient("ada").find("later")
    with pytest.raises(MessageUnknown):
        either.recipient("ada").withdraw("later")
    assert either.recipient("ada").peek(wait=2) is None
    assert either.send(recipient="ada", text="other", id="later").accepted == 1


def test_duplicates_and_conflicts_are_known_either_way(either: sync.Hub) -> None:
    either.send(recipient="ada", text="x", id="first", visible_at=FAR)
    assert either.send(recipient="ada", text="x", id="first", visible_at=FAR + timedelta(days=1)).duplicates == 1
    assert either.recipient("ada").find("first").visible_at == FAR
    assert either.send(recipient="ada", text="x", id="first").duplicates == 1
    many = [Message(recipient="ada", text="x", id="first"), *[Message(recipient="ada", text=str(n)) for n in range(99)]]
    receipt = either.send(many)
    assert (receipt.accepted, receipt.duplicates) == (99, 1)
    for other in ({"visible_at": FAR}, {}):
        with pytest.raises(MessageConflict) as refused:
            either.send([{"recipient": "bob", "text": "y"}, {"recipient": "ada", "text": "y", "id": "first", **other}])
        assert [(fault.index, fault.id) for fault in refused.value.faults] == [(1, "first")]
    assert not shown(either, "bob")
    either.send(recipient="ada", text="stored", id="second")
    assert either.send(recipient="ada", text="stored", id="second", visible_at=FAR).duplicates == 1
    with pytest.raises(MessageConflict):
        either.send(recipient="ada", text="other", id="second", visible_at=FAR)
    twins = [{"recipient": "ada", "text": "t", "id": "twin", "visible_at": FAR}] * 2
    assert either.send(twins).duplicates == 1


def test_one_that_another_came_before_all_the_same_is_dropped(either: sync.Hub) -> None:
    with either.consignment("k") as consignment:
        consignment.stage("w", 0, Message(recipient="ada", text="staged", id="one"))
        due = soon()
        either.send(recipient="ada", text="x", id="one", visible_at=due)
    assert shown(either) == ["one"]
    either.send(recipient="bob", text="x", visible_at=due + timedelta(milliseconds=1))
    assert either.recipient("bob").peek(wait=SECONDS) is not None, "what is due later has come"
    assert either.recipient("ada").find("one").text == "staged"
    assert shown(either) == ["one"]


def test_every_form_can_say_it(running: ServedHub, either: sync.Hub) -> None:
    either.send(
        pa.table({"recipient": ["ada", "ada"], "text": ["a", "b"], "id": ["t1", "t2"], "visible_at": [FAR, None]})
    )
    event = {"specversion": "1.0", "source": "s", "type": "t", "recipient": "ada", "data": 1}
    either.send([{**event, "id": "e1", "visibletime": "2090-01-31T12:00:00Z"}])
    either.send({"recipients": ["ada", "bob"], "text": "x", "id": "b1", "visible_at": "2090-01-31T12:00:00Z"})
    with either.producer.pipeline() as pipeline:
        assert pipeline.send(Message(recipient="ada", text="x", id="p1", visible_at=FAR)).result().delayed == 1
    with either.recipient("ada").live() as live:
        live.send(Message(recipient="ada", text="x", id="l1", visible_at=FAR)).processed()
    for name in ("t1", "b1", "p1", "l1"):
        assert either.recipient("ada").find(name).state is State.DELAYED
    assert either.recipient("bob").find("b1").visible_at == FAR
    wait_until(lambda: shown(either) == ["t2"], "one of a delayed send that is due is published at once")
    assert either.send(recipient="ada", text="past", id="past", visible_at=soon(-1)).delayed == 0
    assert "past" in shown(either)
    body = {"recipient": "ada", "id": "raw", "text": "x", "visible_at": "2090-01-31T12:00:00Z"}
    request = Request(f"{running.url}/v1/messages", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request) as answer:
        assert json.load(answer) == {"accepted": 1, "duplicates": 0, "partitions": [], "delayed": 1}
    with urlopen(f"{running.url}/v1/recipients/ada/messages/raw") as answer:
        told = json.load(answer)
    assert (told["state"], told["visible_at"], told["text"]) == ("delayed", "2090-01-31T12:00:00.000000Z", "x")
    assert not {"sequence_number", "published_at"} & told.keys()


def test_what_it_cannot_be_combined_with_is_said(either: sync.Hub) -> None:
    later: dict[str, Any] = {"recipient": "ada", "text": "x", "visible_at": FAR}
    with either.batches.open("k") as batch, pytest.raises(InvalidRequest, match="cannot be combined with a batch"):
        either.send(later, batch=batch)
    with pytest.raises(InvalidRequest, match="with a consignment"), either.consignment("k") as consignment:
        consignment.stage("w", 0, later)
    with (
        restante.ProducerClient(either, enable_idempotent_partitions=True) as producer,
        pytest.raises(InvalidRequest, match="numbers of a producer"),
    ):
        producer.send_messages(later, partition=either.partition_of("ada"))
    with pytest.raises(InvalidMessage, match="before expires_at"):
        either.send(**later, expires_at=FAR)
    with pytest.raises(InvalidMessage, match="time zone"):
        either.send(recipient="ada", text="x", visible_at=datetime(2090, 1, 1))  # noqa: DTZ001 - that is wrong with it


def test_erasing_takes_it_along(either: sync.Hub) -> None:
    either.send(recipient="ada", text="x", id="later", visible_at=FAR)
    either.send(recipient="bob", text="x", id="later", visible_at=FAR)
    either.recipient("ada").erase()
    with pytest.raises(MessageUnknown):
        either.recipient("ada").find("later")
    assert either.recipient("bob").find("later").state is State.DELAYED


def test_it_outlives_a_restart_and_a_backup(tmp_path: Path) -> None:
    with restante.open(tmp_path / "data", settings=SETTINGS) as hub:
        hub.send([{"recipient": "ada", "text": "x", "id": f"m{n}", "visible_at": soon(0.5)} for n in range(200)])
        hub.send(recipient="ada", text="x", id="far", visible_at=FAR)
    with restante.open(tmp_path / "data", settings=SETTINGS) as hub:
        assert hub.recipient("ada").find("far").visible_at == FAR
        wait_until(lambda: hub.partitions()[hub.partition_of("ada")].waiting >= 200, "all are due")
        assert hub.partitions()[hub.partition_of("ada")].waiting == 200
        assert hub.send(recipient="ada", text="x", id="far").duplicates == 1


def test_what_is_kept_aside_is_small_whatever_the_hub_is_set_to(tmp_path: Path) -> None:
    large = msgspec.structs.replace(SETTINGS, data_bytes_max=2 * DATA_BYTES_MAX)
    with restante.open(tmp_path / "data", settings=large) as hub:
        with pytest.raises(InvalidMessage, match="a message with visible_at has at most"):
            hub.send(recipient="ada", data=b"x" * (DATA_BYTES_MAX + 1), visible_at=FAR)
        assert hub.send(recipient="ada", data=b"x" * DATA_BYTES_MAX, visible_at=FAR).delayed == 1


def test_a_hub_says_when_it_holds_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restante.limits.DELAYED_MESSAGES_MAX", 2)
    with restante.open(tmp_path / "data", settings=msgspec.structs.replace(SETTINGS, partition_count=1)) as hub:
        hub.send([{"recipient": "ada", "text": str(n), "visible_at": FAR} for n in range(2)])
        with pytest.raises(Overloaded, match="2 messages are delayed"):
            hub.send(recipient="ada", text="x", visible_at=FAR)


def test_an_empty_mailbox_says_that_messages_are_delayed(either: sync.Hub) -> None:
    ada = either.recipient("ada")
    assert ada.explain().reason is Reason.RECIPIENT_UNKNOWN
    either.send([{"recipient": "ada", "text": "x", "id": f"m{n}", "visible_at": FAR} for n in range(3)])
    explained = ada.explain()
    assert (explained.reason, explained.not_yet_visible) == (Reason.NOT_YET_VISIBLE, 3)
    assert "delayed" in explained.text
    assert either.recipient("bob").explain().not_yet_visible == 0
    either.send(recipient="ada", text="now")
    explained = ada.explain()
    assert (explained.reason, explained.not_yet_visible) == (Reason.READY, 3)
    for n in range(3):
        ada.withdraw(f"m{n}")
    bundle = ada.peek()
    assert bundle is not None
    bundle.dequeue()
    explained = ada.explain()
    assert (explained.reason, explained.not_yet_visible) == (Reason.NOTHING_WAITING, 0)


def test_the_reason_is_in_the_header_of_an_empty_peek_and_the_count_in_the_metrics(
    running: ServedHub, hub: sync.Hub
) -> None:
    hub.send(recipient="ada", text="x", visible_at=FAR)
    with urlopen(f"{running.url}/v1/recipients/ada/peek") as answer:
        assert (answer.status, answer.headers["Restante-Empty-Reason"]) == (204, "not_yet_visible")
    with urlopen(f"{running.url}/metrics") as answer:
        assert b"\nrestante_messages_delayed 1.0\n" in answer.read()


def test_to_set_it_aside_is_refused_with_what_can_be_done(either: sync.Hub) -> None:
    either.send(recipient="ada", text="x", id="later", visible_at=FAR)
    for refused in (either.recipient("ada").set_aside, either.recipient("ada").release):
        with pytest.raises(MessageUnknown, match=r"delayed until 2090-01-31T12:00:00.*can only be withdrawn"):
            refused("later")
        with pytest.raises(MessageUnknown, match="has no message other"):
            refused("other")


def test_one_is_taken_back_in_the_commit_that_puts_it_aside(tmp_path: Path) -> None:
    """Two callers whose requests share a commit: the second sees what the first has done."""
    with restante.open(tmp_path / "data", settings=SETTINGS) as hub:
        link = hub.link
        assert isinstance(link, OpenHub)
        core, message = link.core, Message(recipient="ada", text="x", id="later", visible_at=FAR)
        address = core.address("ada")

        def both(draft: RequestDraft) -> tuple[int, bool, bool]:
            sent = publish_request(core, Publish.of([message]), EVERYTHING)
            assert isinstance(sent, Planned)
            kept: Receipt = sent.plan(draft)
            taken = plan_take_back(core, address, "later", draft)
            return kept.delayed, taken, plan_take_back(core, address, "later", draft)

        assert core.commit(both) == (1, True, False)
        assert link.core.memory(DelayedMemory).count == 0
        assert hub.recipient("ada").explain().not_yet_visible == 0
        assert hub.send(message).delayed == 1
    with closing(open_store(tmp_path / "data")) as store:
        assert examine(store).sound


def test_what_is_taken_back_leaves_no_memory_behind() -> None:
    memory = DelayedMemory()
    for n in range(5_000):
        place = (0, DueKey(2**60 + n, n, number_key(7) + n.to_bytes(16, "big") + b"ada"))
        memory.add([place])
        memory.remove([place])
        memory.remove([place])
    assert memory.count == 0
    assert len(memory._heap) <= 1_001, "the heap keeps few entries of messages that are gone"
    assert not memory.count_for(MailboxAddress("ada", 0, 7))


def test_an_older_time_does_not_take_a_newer_one_along() -> None:
    memory, key = DelayedMemory(), number_key(7) + bytes(16) + b"ada"
    before, after = (0, DueKey(1, 5, key)), (0, DueKey(2, 5, key))
    memory.add([before])
    memory.remove([before])
    memory.add([after])
    memory.remove([before])
    assert memory.take_due(10, 10) == [after]
    assert memory.count_for(MailboxAddress("ada", 0, 7)) == 1

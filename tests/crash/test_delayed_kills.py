"""Delayed messages and a process that is killed: each is there once, when it is due, whatever the moment of the kill."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import restante
from restante import Message, State
from restante.client.surface.sync import Hub
from restante.errors import MessageUnknown
from tests.crash.served import Served
from tests.waiting import wait_until

ROUNDS = 4
EACH = 150


@pytest.mark.kills
def test_no_delayed_message_is_lost_or_there_twice(tmp_path: Path) -> None:
    chance = random.Random(4)
    served = Served(tmp_path / "data", partition_count=4)
    accepted: list[str] = []
    for number in range(ROUNDS):
        served.start()
        with restante.connect(served.url) as hub:
            now = datetime.now(UTC)
            for item in range(EACH):
                name = f"{number}-{item}"
                hub.send(
                    recipient=f"r{item % 7}",
                    id=name,
                    text=name,
                    visible_at=now + timedelta(seconds=chance.uniform(0.1, 2.0)),
                )
                accepted.append(name)
            hub.send(recipient="far", id=f"far-{number}", text="x", visible_at=now + timedelta(days=1))
        time.sleep(chance.uniform(0, 0.8))
        served.kill()
    served.start()
    with restante.connect(served.url) as hub:
        wait_until(lambda: sum(status.waiting for status in hub.partitions()) >= len(accepted), "all are due")
        seen = [message.id for page in range(7) for message in _history(hub, f"r{page}")]
        assert sorted(str(one) for one in seen) == sorted(accepted)
        assert all(hub.recipient("far").find(f"far-{number}").state is State.DELAYED for number in range(ROUNDS))
        hub.recipient("far").withdraw("far-0")
    served.kill()
    served.start()
    with restante.connect(served.url) as hub, pytest.raises(MessageUnknown):
        hub.recipient("far").find("far-0")
    assert served.end() == 0


def _history(hub: Hub, recipient: str) -> list[Message]:
    page = hub.recipient(recipient).history(limit=1_000)
    assert page.next is None
    return list(page.messages)

"""Readers of a log and a hub that is killed while they send: each record is stored once, in order, without ids."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import restante
from restante.errors import RestanteError
from tests.crash.served import Served
from tests.sources.records import expected, records, stored

ROUNDS = 4
RECORDS = 900
SOURCE = "log/0"


class CommittedOffset:
    """Where a reader begins again: all before it was answered as stored."""

    def __init__(self) -> None:
        self.value = 0


def read_on(url: str, log: list[int], offset: CommittedOffset, chance: random.Random) -> None:
    """Read from some records before the committed offset, in batches of any size, until the hub is gone."""
    with restante.connect(url, retries=0) as hub:
        at = max(offset.value - chance.randrange(40), 0)
        while at < len(log):
            batch = log[at : at + chance.randrange(1, 25)]
            hub.send(records(batch), source=SOURCE)
            at += len(batch)
            offset.value = max(offset.value, at)


@pytest.mark.kills
def test_a_log_that_is_read_while_the_hub_is_killed_is_stored_once(tmp_path: Path) -> None:
    chance = random.Random(24)
    log = sorted(chance.sample(range(3 * RECORDS), RECORDS))
    served, offset = Served(tmp_path / "data", partition_count=4), CommittedOffset()
    for _ in range(ROUNDS):
        served.start()
        readers = [
            threading.Thread(target=_until_gone, args=(served.url, log, offset, random.Random(chance.random())))
            for _ in range(2)
        ]
        for reader in readers:
            reader.start()
        time.sleep(chance.uniform(0.05, 0.4))
        served.kill()
        for reader in readers:
            reader.join()
    served.start()
    read_on(served.url, log, offset, chance)
    with restante.connect(served.url) as hub:
        assert stored(hub) == expected(log)
        assert hub.sources.get(SOURCE).messages == RECORDS
    assert served.end() == 0


def _until_gone(url: str, log: list[int], offset: CommittedOffset, chance: random.Random) -> None:
    with suppress(RestanteError):
        read_on(url, log, offset, chance)

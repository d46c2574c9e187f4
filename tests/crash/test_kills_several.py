"""The supervisor of several processes killed again and again, and started again at once: what a client was told stays true."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import restante
from restante.client.surface.sync import Hub
from restante.cluster.joined_shards import open_look
from restante.errors import RestanteError
from restante.hub.doctor.doctor import examine
from restante.model.batches.batch_answers import BatchState
from tests.crash.campaign import folders
from tests.crash.served import Served
from tests.crash.wire_ledger import WireLedger
from tests.crash.wire_load import PATIENT, RECIPIENTS, drain, kill_under_load
from tests.waiting import wait_until

pytestmark = [pytest.mark.kills, pytest.mark.timeout(900)]

KILLS = 3
KILLS_LONG = 50
KILLS_PER_FOLDER = 10
ANSWERS_MAX = 60
NIGHT = [f"sleeper {number}" for number in range(8)]
"""Recipients of consignments alone: nobody collects for them meanwhile."""


class ServedSeveral(Served):
    """Two shards and a door."""

    def check_folder(self) -> None:
        store = open_look(self.folder)
        try:
            report = examine(store)
        finally:
            store.close()
        assert report.sound, report.findings


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedSeveral]:
    with ServedSeveral(tmp_path / "data", "--shards", "2", "--doors", "1", partition_count=4) as process:
        yield process


class Nights:
    """Consignments with a batch, one after the other; each is committed until it is answered."""

    def __init__(self, url: str) -> None:
        self.committed: list[int] = []
        self.failures: list[BaseException] = []
        self._url, self._stopping = url, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with restante.connect(self._url, retries=PATIENT) as hub:
                for night in count():
                    while not self._stopping.is_set() and not self._committed(hub, night):
                        pass
                    if self._stopping.is_set():
                        return
                    self.committed.append(night)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the test must hear of it
            self.failures.append(error)

    def _committed(self, hub: Hub, night: int) -> bool:
        """The same again does no harm."""
        try:
            consignment = hub.consignment(f"night {night}", batch=True)
            consignment.stage("w", 0, [restante.Message(recipient=name, text=f"night {night}") for name in NIGHT])
            return consignment.commit().accepted == len(NIGHT)
        except RestanteError:
            return hub.consignment(f"night {night}").state.value == "committed"

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert not self.failures, self.failures

    def check(self, hub: Hub) -> None:
        """Each that was acknowledged is there once, and the last one wholly or not at all; then their batches are complete."""
        for status in hub.consignments(state="open"):
            hub.consignment(status.key).discard()
        wait_until(lambda: len({tuple(_mail(hub, name)) for name in NIGHT}) == 1, "all shards have applied")
        mail = _mail(hub, NIGHT[0])
        assert mail in ([f"night {n}" for n in range(len(self.committed) + more)] for more in (0, 1))
        for name in NIGHT:
            while (bundle := hub.recipient(name).peek()) is not None:
                bundle.dequeue()
        batches = [batch.id for batch in hub.batches.list()]
        assert len(batches) == len(mail)
        for batch in batches:
            assert hub.batches.get(batch).completed().state is BatchState.COMPLETE


def _mail(hub: Hub, name: str) -> list[str]:
    found: list[str] = []
    after: int | None = 0
    while after is not None:
        page = hub.recipient(name).history(after=after, limit=1_000)
        found += [str(message.text) for message in page.messages]
        after = page.next
    return found


def kill_often(served: ServedSeveral, *, kills: int, seed: int) -> tuple[WireLedger, Nights]:
    ledger, nights = WireLedger(shards=2), Nights(served.url)
    kill_under_load(served, ledger, kills=kills, seed=seed, answers_max=ANSWERS_MAX)
    nights.stop()
    return ledger, nights


def check_all(served: ServedSeveral, ledger: WireLedger, nights: Nights) -> None:
    drain(served.url, ledger)
    with restante.connect(served.url) as hub:
        nights.check(hub)  # who collects what the ledger knows nothing of
        ledger.check(hub)
    sent = sum(len(messages) for messages in ledger.sent.values())
    assert sum(len(ledger.collected[name]) for name in RECIPIENTS) == sent
    assert served.end() == 0
    served.check_folder()


def test_clients_of_several_processes_killed_together_lose_nothing_and_get_nothing_twice(
    served: ServedSeveral,
) -> None:
    check_all(served, *kill_often(served, kills=KILLS, seed=21))


@pytest.mark.long
@pytest.mark.parametrize("seed", folders(KILLS_LONG, per_folder=KILLS_PER_FOLDER))
def test_clients_of_several_processes_killed_fifty_times_lose_nothing_and_get_nothing_twice(
    served: ServedSeveral, seed: int
) -> None:
    check_all(served, *kill_often(served, kills=KILLS_PER_FOLDER, seed=2_000 + seed))

"""The bound of a message's data is a setting, up to 16 MiB: at every door the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import restante
from restante import Message
from restante.client.surface import sync
from restante.errors import InvalidMessage, InvalidSettings
from restante.limits import LARGE_DATA_BYTES_MAX
from restante.server.serve import ServedHub, start
from restante.settings import Settings

LARGE = Settings(partition_count=2, data_bytes_max=LARGE_DATA_BYTES_MAX, housekeeping_seconds=0)
FULL = b"\x01" * LARGE_DATA_BYTES_MAX


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub]:
    with start(tmp_path_factory.mktemp("large") / "data", LARGE) as running:
        yield running


@pytest.fixture
def hub(large: ServedHub) -> Iterator[sync.Hub]:
    with restante.connect(large.url) as connected:
        yield connected


def test_the_largest_message_goes_there_and_comes_back(hub: sync.Hub) -> None:
    hub.send(recipient="ada", data=FULL, id="full")
    hub.send(pa.table({"recipient": ["ada"], "data": [FULL.decode()], "id": ["text"]}))
    hub.send(recipient="ada", data={"x": "y" * (LARGE_DATA_BYTES_MAX - 8)}, id="json")
    with hub.producer.pipeline() as pipeline:
        pipeline.send(Message(recipient="ada", data=FULL, id="pipelined"))
    bundle = hub.recipient("ada").peek(max_messages=2)
    assert bundle is not None
    assert [len(message.data) for message in bundle.messages] == [LARGE_DATA_BYTES_MAX] * 2
    assert {message.id for message in hub.recipient("ada").history().messages} >= {"full", "text", "json"}
    assert hub.recipient("ada").find("pipelined").data == FULL
    assert hub.file() >= 0
    assert hub.recipient("ada").find("full").data == FULL


def test_it_is_pushed_and_sent_live(hub: sync.Hub) -> None:
    with hub.recipient("bob").live(after=0) as live:
        live.send({"recipient": "bob", "text": "\x01" * LARGE_DATA_BYTES_MAX}).processed()
        assert len(next(iter(live)).text or "") == LARGE_DATA_BYTES_MAX


def test_it_is_in_the_feed(hub: sync.Hub) -> None:
    hub.send(recipient="carol", data=FULL)
    sizes = [len(data or b"") for page in hub.feed(recipients=["carol"]) for data in page.table["data"].to_pylist()]
    assert sizes == [LARGE_DATA_BYTES_MAX]


@pytest.mark.parametrize("settings", [Settings(partition_count=1), LARGE], ids=["default", "largest"])
def test_one_byte_more_is_refused_at_every_door(settings: Settings, tmp_path: Path) -> None:
    most = settings.data_bytes_max
    told = f"data has {most + 1} bytes: at most {most} are allowed"
    with start(tmp_path / "data", settings) as running, restante.connect(running.url) as wired:
        for sent in (
            Message(recipient="ada", data=b"x" * (most + 1)),
            pa.table({"recipient": ["ada"], "data": [b"x" * (most + 1)]}),
            {"recipient": "ada", "text": "x" * (most + 1)},
        ):
            with pytest.raises(InvalidMessage, match=told):
                wired.send(sent)
        with wired.recipient("ada").live() as live, pytest.raises(InvalidMessage, match="data has"):
            live.send(Message(recipient="ada", text="x" * (most + 1))).processed()
        with pytest.raises(InvalidMessage, match=told), wired.consignment("k") as consignment:
            consignment.stage("w", 0, Message(recipient="ada", data=b"x" * (most + 1)))


def test_in_process_it_is_the_same_and_the_folder_is_sound(tmp_path: Path) -> None:
    quiet = msgspec.structs.replace(LARGE, partition_count=1, filing=False)
    with restante.open(tmp_path / "data", settings=quiet) as hub:
        for number in range(9):
            hub.send(recipient=f"r{number % 3}", data=FULL, id=f"m{number}")
        assert hub.file()
        with hub.consignment("k") as consignment:
            consignment.stage("w", 0, Message(recipient="r0", data=FULL, id="staged"))
    with restante.open(tmp_path / "data", settings=quiet) as hub:
        assert hub.recipient("r1").find("m4").data == FULL
        assert hub.recipient("r0").find("staged").data == FULL
    checked = [sys.executable, "-m", "restante", "doctor", str(tmp_path / "data")]
    done = subprocess.run(checked, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    with restante.open(tmp_path / "data", settings=Settings(partition_count=1)) as hub:
        assert hub.recipient("r1").find("m4").data == FULL
        with pytest.raises(InvalidMessage):
            hub.send(recipient="r0", data=FULL)


def test_more_than_the_largest_is_no_setting() -> None:
    with pytest.raises(InvalidSettings):
        Settings(data_bytes_max=LARGE_DATA_BYTES_MAX + 1)

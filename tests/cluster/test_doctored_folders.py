"""`restante doctor` on the folder of several shards, as a whole and one shard alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import restante
from restante.cli import app
from restante.errors import DataDamaged
from tests.cluster.several import SeveralHub
from tests.cluster.test_doors import names


def doctor(folder: Path) -> Any:
    result = CliRunner().invoke(app, ["doctor", str(folder), "--json"])
    assert not result.stderr, result.stderr
    return json.loads(result.stdout)


def fill(url: str) -> None:
    """Messages, a batch bound to some of them, a consignment that was committed, and one that is open."""
    everybody = [names(shard)[0] for shard in range(4)]
    with restante.connect(url) as hub:
        with hub.batches.open() as batch:
            hub.producer.send([restante.Message(recipient=name, data=b"x") for name in everybody], batch=batch)
        letters = [restante.Message(recipient=name, text="staged") for name in everybody]
        with hub.consignment("done", batch=True) as done:
            done.stage("w", 0, letters)
        hub.consignment("open", batch=True).stage("w", 0, letters)


def test_what_several_shards_leave_is_sound_as_a_whole_and_each_alone(tmp_path: Path) -> None:
    several = SeveralHub(tmp_path / "data")
    fill(several.url)
    locked = CliRunner().invoke(app, ["doctor", str(tmp_path / "data" / "shard-1")])
    several.stop()
    assert locked.stderr.startswith("error data_locked: ")
    report = doctor(tmp_path / "data")
    assert report["verdict"] == "sound", report
    assert report["checked"] | {"partitions": 16, "messages": 8, "batches": 3, "consignments": 2} == report["checked"]
    alone = [doctor(tmp_path / "data" / f"shard-{shard}") for shard in range(4)]
    assert [one["verdict"] for one in alone] == ["sound"] * 4
    assert sum(one["checked"]["messages"] for one in alone) == 8


def test_a_shard_of_another_hub_and_a_missing_one_are_told(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        SeveralHub(folder).stop()
    shutil.rmtree(folders[0] / "shard-2")
    missing = CliRunner().invoke(app, ["doctor", str(folders[0])])
    assert missing.stderr.startswith("error data_damaged: ")
    assert "shard-2 is missing" in missing.stderr
    with pytest.raises(DataDamaged, match="shard-2 is missing"):
        SeveralHub(folders[0])
    (folders[1] / "shard-2").rename(folders[0] / "shard-2")
    exchanged = CliRunner().invoke(app, ["doctor", str(folders[0])])
    assert exchanged.stderr.startswith("error data_damaged: ")
    assert "of another hub" in exchanged.stderr

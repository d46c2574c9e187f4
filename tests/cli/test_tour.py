"""`restante tour`: the sample night, and what it would say if something went wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import restante
from restante.cli import app, sample_night
from restante.cli.sample_night import Advance, Post, play
from restante.cli.showing import counted, duration, size
from restante.settings import Settings

STEPS = ["publish", "publish a parcel again", "file", "collect and confirm"]


def tour(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["tour", *arguments])


def test_the_table_has_each_step_and_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = tour("--messages", "12000", "--recipients", "30")
    assert result.exit_code == 0, result.output
    for step in STEPS:
        assert step in result.output
    assert "12,000 messages for 30 recipients" in result.output
    assert "all 10,000 known by their ids" in result.output
    assert "nothing_waiting" in result.output
    assert "Every message arrived exactly once and in order" in result.output
    assert list(tmp_path.iterdir()) == []


def test_the_night_as_json(tmp_path: Path) -> None:
    result = tour("--messages", "300", "--recipients", "400", "--json", "--data", str(tmp_path / "data"))
    assert result.exit_code == 0, result.output
    night = json.loads(result.stdout)
    assert [step["step"] for step in night["steps"]] == STEPS
    assert all(step["messages"] == 300 and step["messages_per_second"] > 0 for step in night["steps"])
    assert night["duplicates"] == 300
    assert night["bundles"] == 300
    assert night["wrong"] == []
    assert night["stored_bytes"] > 300 * sample_night.DATA_BYTES


def test_data_is_kept_where_it_was_asked_for_and_is_sound(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert tour("--messages", "500", "--recipients", "5", "--data", str(folder)).exit_code == 0
    assert CliRunner().invoke(app, ["doctor", str(folder)]).exit_code == 0
    with restante.open(folder) as hub:
        assert hub.recipient("recipient-000000").history(limit=1).messages


def test_a_folder_that_is_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("mine")
    assert tour("--data", str(tmp_path)).exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["something"]


@contextmanager
def watch(name: str, total: int) -> Iterator[Advance]:
    done: list[int] = []
    yield done.append
    assert sum(done) == total, f"{name} says when it is done"


def test_a_message_that_does_not_arrive_is_noticed(tmp_path: Path) -> None:
    post = Post(messages=50, recipients=3)
    with restante.open(tmp_path) as hub:
        hub.producer.send(post.parcel(0).slice(0, 49))
        one = sample_night._Round(hub, post.names, lambda done: None)
        one.walk()
    twice = [*one.places, np.array([7])]
    assert list(sample_night._missing(twice, 50)) == [
        "1 message never arrived, the first at place 49.",
        "1 message arrived more than once, the first at place 7.",
    ]


def test_mail_out_of_order_is_noticed(tmp_path: Path) -> None:
    post = Post(messages=40, recipients=1)
    with restante.open(tmp_path) as hub:
        hub.producer.send(post.parcel(0).slice(20))
        hub.producer.send(post.parcel(0).slice(0, 20))
        one = sample_night._Round(hub, post.names, lambda done: None)
        one.walk()
    assert sorted(one.wrong) == [f"recipient-000000 got its {kind}s out of order." for kind in ("invoice", "letter")]


def test_the_same_parcel_is_the_same_each_time() -> None:
    post = Post(messages=25, recipients=4)
    assert post.parcel(0).equals(post.parcel(0))
    assert not post.parcel(0)["id"].equals(Post(messages=25, recipients=4, seed=1).parcel(0)["id"])


def test_every_step_says_when_it_is_done(tmp_path: Path) -> None:
    with restante.open(tmp_path, settings=Settings(filing=False)) as hub:
        night = play(hub, Post(messages=100, recipients=10), watch)
    assert night.wrong == []


def test_a_night_gone_wrong_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_night, "_missing", lambda places, messages: ["3 messages never arrived."])
    result = tour("--messages", "10", "--recipients", "2")
    assert result.exit_code == 1
    assert "Not as it should be" in result.output
    assert "3 messages never arrived." in result.output


def test_numbers_are_shown_for_people() -> None:
    assert counted(1, "message") == "1 message"
    assert counted(12_000, "message") == "12,000 messages"
    assert [size(count) for count in (7, 7_300, 27_400_000, 5e15)] == ["7 B", "7.3 kB", "27.4 MB", "5,000.0 TB"]
    assert [duration(seconds) for seconds in (0.0123, 3.456)] == ["12 ms", "3.46 s"]

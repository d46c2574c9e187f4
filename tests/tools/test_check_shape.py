"""The check of shapes finds what it is for, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_shape


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(check_shape, "ROOT", tmp_path)
    monkeypatch.setattr(check_shape, "SOURCE", tmp_path)
    return tmp_path


def written(source: Path, name: str, text: str = "") -> Path:
    path = source / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_gerunds_are_found_and_nouns_are_not(source: Path) -> None:
    names = ("judging.py", "hub/late_asking.py", "hub/publishing.py", "wire/incoming.py", "wire/incoming_json.py")
    assert check_shape.gerunds([written(source, name) for name in names]) == ["judging.py", "hub/late_asking.py"]


def test_names_that_say_nothing_are_found(source: Path) -> None:
    names = ("deeds.py", "hub/ways.py", "hub/ways_of_mail.py", "hub/batches.py")
    assert check_shape.silent([written(source, name) for name in names]) == ["deeds.py", "hub/ways.py"]


def test_a_package_that_reaches_into_a_hub_is_found(source: Path) -> None:
    paths = [
        written(source, "server/health/rates.py", "one = 1\ntotals = hub.core.committer.totals\n"),
        written(source, "hub/door/hub.py", "hub.core\n"),
    ]
    assert check_shape.reached_into(paths) == ["server/health/rates.py:2"]


def test_a_class_name_means_one_thing_but_for_twins(source: Path) -> None:
    paths = [
        written(source, name, f"class {found}: ...\nclass _{found}: ...\n")
        for name, found in (
            ("a.py", "Row"),
            ("b.py", "Row"),
            ("feed_sync.py", "Feed"),
            ("feed_async.py", "Feed"),
        )
    ]
    assert check_shape.names_shared(paths) == ["Row: a.py, b.py"]


def test_the_name_of_an_alias_means_one_thing_too(source: Path) -> None:
    paths = [
        written(
            source,
            "a.py",
            "Row = list[int]\nPlace: TypeAlias = 'int | None'\nEqual = str | None\nT = TypeVar('T')\nItem = TypeVar('Item')\n",
        ),
        written(
            source,
            "b.py",
            "Row = list[str]\nclass Place: ...\nEqual = str | None\nT = dict\nItem = int\nWORDS = one[2]\nPlain = 1\n",
        ),
        written(source, "c.py", "class Item: ...\nWORDS = one[3]\nPlain = call()\n_Row = set\n"),
    ]
    assert check_shape.names_shared(paths) == ["Item: b.py, c.py", "Place: a.py, b.py", "Row: a.py, b.py"]


def test_the_length_of_a_function_has_its_docstring(source: Path) -> None:
    path = written(source, "a.py", 'def one() -> None:\n    """It does."""\n\n    return None\n')
    assert check_shape.functions_of(path) == [check_shape.Piece("a.py:1 one", 4)]


def test_a_decoder_that_is_made_with_msgspec_itself_is_found(source: Path) -> None:
    lines = ("msgspec.json.Decoder(Row)", "msgspec.msgpack.decode(b'', type=Row)", "msgspec.convert({}, Row)")
    fine = ("msgspec.json.decode(b'')", "json_decoder(Row)", "kept: msgspec.json.Decoder[Row]")
    path = written(source, "a.py", "\n".join((*lines, *fine)) + "\n")
    assert check_shape.decoders_made(path) == ["a.py:1", "a.py:2", "a.py:3"]

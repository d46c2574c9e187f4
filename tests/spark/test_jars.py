"""Delta's jars: found in the cache without Java or network, and a clear word when they cannot be fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.server import free_port
from restante.errors import Unavailable
from restante.spark.sessions import cache, jars


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_jars_that_are_there_need_neither_java_nor_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    for name in jars.NAMES:
        cache.put(jars.folder() / name, b"a jar")
    assert [path.read_bytes() for path in jars.paths()] == [b"a jar"] * 7
    assert {path.name for path in jars.paths()} == set(jars.NAMES)


@pytest.mark.usefixtures("own_java")
def test_jars_that_cannot_be_fetched_are_named_with_where_they_were_sought_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mirror = f"http://127.0.0.1:{free_port()}/maven"
    monkeypatch.setenv(jars.MIRROR, mirror)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort={free_port()}")
    with pytest.raises(Unavailable) as failed:
        jars.paths()
    assert failed.value.retriable
    for words in (jars.PACKAGE, jars.NAMES[0], mirror, "repo1.maven.org", jars.MIRROR, str(jars.folder())):
        assert words in failed.value.message
    assert list(jars.folder().iterdir()) == []

"""Jars: fetched from a mirror by what they are, kept in the cache, and a clear word when they cannot be had."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bench.server import free_port
from restante.errors import Unavailable
from restante.spark.sessions import jars
from restante.spark.sessions.jars import Jar, kept

CONTENT = b"a jar"
JAR = Jar("org.example:thing:1.2.3", sha256(CONTENT).hexdigest())
PATH = "/org/example/thing/1.2.3/thing-1.2.3.jar"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, and no way to Maven Central."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv(jars.MIRROR, raising=False)


@contextmanager
def mirror(content: bytes) -> Iterator[tuple[str, list[str]]]:
    """A repository that has this content at every path: its URL, and the paths that it is asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def test_a_jar_is_fetched_once_and_then_found_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    with mirror(CONTENT) as (url, asked):
        monkeypatch.setenv(jars.MIRROR, f"{url}/")
        first = kept("things", [JAR])
    assert asked == [PATH]
    assert kept("things", [JAR]) == first
    assert [path.read_bytes() for path in first] == [CONTENT]


def test_a_local_repository_that_is_half_filled_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    half = tmp_path / ".m2" / "repository" / PATH.lstrip("/")
    half.parent.mkdir(parents=True)
    half.with_suffix(".pom").write_text("<project/>")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))  # and no Java is needed
    with mirror(CONTENT) as (url, _):
        monkeypatch.setenv(jars.MIRROR, url)
        assert [path.read_bytes() for path in kept("things", [JAR])] == [CONTENT]


def test_a_jar_with_another_checksum_is_not_taken_and_the_next_place_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with mirror(b"a jar with a passenger") as (bad, _), mirror(CONTENT) as (good, _):
        monkeypatch.setenv(jars.MIRROR, f"{bad},{good}")
        assert [path.read_bytes() for path in kept("things", [JAR])] == [CONTENT]


def test_a_jar_that_was_damaged_in_the_cache_is_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with mirror(CONTENT) as (url, asked):
        monkeypatch.setenv(jars.MIRROR, url)
        (path,) = kept("things", [JAR])
        path.write_bytes(b"half of")
        assert kept("things", [JAR]) == [path]
    assert (path.read_bytes(), len(asked)) == (CONTENT, 2)


def test_a_jar_that_cannot_be_had_is_named_with_where_it_was_sought_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with mirror(b"a jar with a passenger") as (url, _):
        monkeypatch.setenv(jars.MIRROR, url)
        with pytest.raises(Unavailable) as failed:
            jars.paths()
    assert failed.value.retriable
    wanted = jars.DELTA[0]
    for words in (wanted.package, wanted.file, wanted.sha256, url, "repo1.maven.org", jars.MIRROR):
        assert words in failed.value.message
    assert [path.name for path in (Path(failed.value.message.split("copy the file to ")[1]).parent).iterdir()] == []


def test_a_jar_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "JAR_BYTES_MAX", 1_000)
    with mirror(bytes(1_001)) as (url, _):
        monkeypatch.setenv(jars.MIRROR, url)
        with pytest.raises(Unavailable, match="larger than"):
            kept("things", [JAR])

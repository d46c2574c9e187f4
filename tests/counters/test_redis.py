"""Counters on a real server: what it keeps and for how long, and everything that can go wrong on the way."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from restante import errors, limits
from restante.counters import PASSWORD_VARIABLE, open_counters
from restante.counters.redis import RedisCounters
from restante.ports.counters import Counters
from restante.settings import Settings
from restante.settings.rules import DAY_SECONDS
from tests.counters.valkey import DeafProxy, ValkeyServer


@contextmanager
def opened(url: str, **settings: float) -> Iterator[Counters]:
    counters = open_counters(Settings(counters_url=url, **settings))  # type: ignore[arg-type]  # only numbers are given
    try:
        yield counters
    finally:
        counters.close()


def key_of(client: redis.Redis, batch: bytes) -> bytes:
    found: list[bytes] = [key for key in client.scan_iter() if batch in key]
    assert len(found) == 1
    return found[0]


def test_what_was_counted_is_there_for_the_next_hub(server: ValkeyServer) -> None:
    batch = os.urandom(16)
    with opened(server.url) as counters:
        counters.add(batch, 7)
    with opened(server.url) as counters:
        assert counters.total(batch) == 7
        assert counters.add(batch, 1) == 8


@pytest.mark.parametrize("use", [lambda c, batch: c.add(batch, 1), lambda c, batch: c.total(batch)])
def test_a_counter_stays_a_day_longer_than_its_batch_and_each_use_renews_that(
    server: ValkeyServer, use: object
) -> None:
    batch = os.urandom(16)
    with opened(server.url, sealed_batch_retention_seconds=50.0) as counters, redis.Redis(port=server.port) as client:
        counters.add(batch, 1)
        client.pexpire(key_of(client, batch), 60_000)
        use(counters, batch)  # type: ignore[operator]
        longest = (Settings().open_batch_retention_seconds + DAY_SECONDS) * 1_000
        left = client.pttl(key_of(client, batch))
        assert isinstance(left, int)
        assert 60_000 < left <= longest


def test_however_long_batches_stay_the_server_can_count(server: ValkeyServer) -> None:
    with opened(server.url, sealed_batch_retention_seconds=1e300) as counters:
        assert counters.add(os.urandom(16), 1) == 1


def test_a_key_says_whose_it_is(server: ValkeyServer) -> None:
    batch = os.urandom(16)
    with opened(server.url) as counters, redis.Redis(port=server.port) as client:
        counters.add(batch, 1)
        assert key_of(client, batch).startswith(b"restante:")


def test_the_password_comes_from_the_environment(guarded: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "sesame")
    with opened(guarded.url) as counters:
        assert counters.add(os.urandom(16), 3) == 3


@pytest.mark.parametrize("password", [None, "open"])
def test_without_the_right_password_the_counters_are_unavailable_and_nothing_is_counted(
    guarded: ValkeyServer, monkeypatch: pytest.MonkeyPatch, password: str | None
) -> None:
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)
    if password is not None:
        monkeypatch.setenv(PASSWORD_VARIABLE, password)
    with opened(guarded.url) as counters, pytest.raises(errors.Unavailable) as caught:
        counters.add(os.urandom(16), 1)
    assert not isinstance(caught.value, errors.OutcomeUnknown)
    assert "open" not in str(caught.value)
    with redis.Redis(port=guarded.port, password="sesame") as client:
        assert client.dbsize() == 0


def test_a_server_out_of_reach_is_unavailable_and_was_told_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with opened(f"redis://127.0.0.1:{port}/0") as counters:
        for ask in (lambda: counters.add(b"b", 1), lambda: counters.total(b"b"), lambda: counters.forget(b"b")):
            with pytest.raises(errors.Unavailable, match="out of reach") as caught:
                ask()
            assert caught.value.code == "unavailable"


def test_an_addition_that_was_not_answered_has_an_unknown_outcome(server: ValkeyServer) -> None:
    batch, proxy = os.urandom(16), DeafProxy(server.port, b"INCRBY")
    with opened(proxy.url) as counters, pytest.raises(errors.OutcomeUnknown):
        counters.add(batch, 5)
    proxy.close()
    with opened(server.url) as counters:
        assert counters.total(batch) == 5, "it was counted once: nobody tried it again"


def test_a_silent_server_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COUNTER_SECONDS_MAX", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        counters = RedisCounters(f"redis://127.0.0.1:{listener.getsockname()[1]}", password=None, keep_seconds=1.0)
        with pytest.raises(errors.Unavailable):
            counters.add(b"b", 1)
        counters.close()


def test_what_is_no_counter_is_refused_and_the_next_call_gets_its_own_answer(server: ValkeyServer) -> None:
    batch, other = os.urandom(16), os.urandom(16)
    with opened(server.url) as counters, redis.Redis(port=server.port) as client:
        counters.add(batch, 1)
        client.set(key_of(client, batch), b"no number")
        with pytest.raises(errors.Unavailable, match="refused"):
            counters.add(batch, 1)
        with pytest.raises(errors.Unavailable, match="refused"):
            counters.total(batch)
        assert counters.add(other, 9) == 9


def test_after_a_restart_of_the_server_counting_goes_on(tmp_path: Path) -> None:
    server, batch = ValkeyServer(tmp_path), os.urandom(16)
    with opened(server.url) as counters:
        assert counters.add(batch, 4) == 4
        server.stop()
        with pytest.raises(errors.Unavailable):
            counters.add(batch, 1)
        server.start()
        assert counters.add(batch, 2) == 2, "the counter is lost, as it may be"
    server.stop()


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "restante.counters.redis", raising=False)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(errors.ExtraMissing, match=r"pip install 'restante\[redis\]'"):
        open_counters(Settings(counters_url="redis://127.0.0.1:6379/0"))

"""Health, metrics, logs, correlation ids: what operators see."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from restante.errors import StorageFull
from restante.limits import FEW_MESSAGES_MAX
from restante.model.storage.changes import Changes
from restante.server.connections import bodies
from restante.server.logs import JsonFormatter, TextFormatter
from restante.server.routes import health
from restante.server.serve import ServedHub
from restante.stores.sqlite import SqliteStore
from tests.server.wire import Wire
from tests.waiting import wait_until

DAY = 86_400.0
CHECKS = {
    "/livez": ["commits"],
    "/readyz": ["accepting", "commits", "disk", "filing"],
    "/startupz": ["started"],
    "/healthz": ["started", "commits", "accepting", "disk", "filing", "deep_write"],
}


@pytest.mark.parametrize("path", list(CHECKS))
def test_a_hub_that_is_well_says_so_check_by_check(wire: Wire, path: str) -> None:
    answer = wire.get(path)
    assert (answer.status, answer.json()["status"]) == (200, "pass")
    assert sorted(check["name"] for check in answer.json()["checks"]) == sorted(CHECKS[path])
    assert all(check["status"] == "pass" and check["duration_ms"] >= 0 for check in answer.json()["checks"])


def test_what_is_not_well_has_its_reason(wire: Wire, running: ServedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "DISK_FREE_BYTES_MIN", 2**62)
    answer = wire.get("/readyz")
    assert (answer.status, answer.json()["status"]) == (503, "fail")
    failed = [check for check in answer.json()["checks"] if check["status"] == "fail"]
    assert [check["name"] for check in failed] == ["disk"]
    assert "bytes are free" in failed[0]["reason"]
    assert wire.get("/livez").status == 200


def test_a_commit_without_room_is_not_well_where_the_disk_has_some(
    wire: Wire, running: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quota or `ulimit -f`: every publish was answered 507, and the health said that all was well."""
    store = running.desk.hub.core.store

    def full(changes: Changes) -> None:
        raise StorageFull("No space is left for the data folder.")

    with monkeypatch.context() as patched:
        patched.setattr(store, "commit", full)
        assert wire.publish({"recipient": "ada", "data": 1}).status == 507
        answer = wire.get("/readyz")
        failed = {check["name"]: check["reason"] for check in answer.json()["checks"] if check["status"] == "fail"}
        assert (answer.status, list(failed)) == (503, ["disk"])
        assert "found no room" in failed["disk"]
        assert wire.get("/livez").status == 200
        monkeypatch.setattr(health, "NO_ROOM_SECONDS", 0.0)  # a minute later: whoever was sent elsewhere may try again
        assert wire.get("/readyz").status == 200
        monkeypatch.undo()
    assert wire.publish({"recipient": "ada", "data": 1}).status == 201
    assert wire.get("/readyz").status == 200


def test_slow_publishes_and_a_dead_committer_are_not_well(wire: Wire, running: ServedHub) -> None:
    for _ in range(9):
        running.desk.metrics.publish(3.0)
    for path in ("/readyz", "/healthz"):
        reasons = [check["reason"] for check in wire.get(path).json()["checks"] if check["status"] == "fail"]
        assert "3.0 s" in "".join(reasons)
    assert wire.get("/livez").status == 200  # to start it again would help nobody
    for _ in range(20):
        running.desk.metrics.publish(0.1)
    assert wire.get("/readyz").status == 200
    running.desk.hub.core.committer._broken = True
    assert wire.get("/livez").status == 503


def test_a_slow_client_and_a_large_body_say_nothing_of_the_disk(
    wire: Wire, running: ServedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One body that took its time to come in made a hub unwell for a minute, and had it restarted."""
    body, counted, sent = b'{"recipient": "ada", "data": 1}', list[float](), threading.Event()
    metrics, room = running.desk.metrics, running.desk.room
    monkeypatch.setattr(metrics, "publish", counted.append)
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() - (0 if sent.is_set() else DAY))
    monkeypatch.setattr(bodies, "time", clock)  # Until the body is sent, it is yesterday.
    with socket.create_connection(wire.address, timeout=30) as slow:
        head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        slow.sendall(head + b"content-length: %d\r\n\r\n" % len(body))
        wait_until(lambda: room.publishes)
        sent.set()
        slow.sendall(body)
        assert slow.recv(65_536).startswith(b"HTTP/1.1 201")
    assert counted[0] < DAY, "the time counts from when the body is there"
    many = [{"recipient": "ada", "data": 1}] * (FEW_MESSAGES_MAX + 1)
    assert wire.publish(*many).status == 201
    assert len(counted) == 1


def test_after_a_failed_flush_health_fails_with_the_reason_and_the_log_says_it_once(
    wire: Wire, running: ServedHub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = running.desk.hub.core.store
    assert isinstance(store, SqliteStore)
    wire.publish({"recipient": "ada", "data": 1})
    file = store._log._file
    assert file is not None
    # A device that takes every write, and cannot be flushed.
    null, kept = os.open("/dev/null", os.O_RDWR), os.dup(file._descriptor)
    os.dup2(null, file._descriptor)
    answers = [wire.publish({"recipient": "ada", "data": 2})]
    os.dup2(kept, file._descriptor)
    os.close(null)
    os.close(kept)
    answers += [wire.publish({"recipient": "ada", "data": 2}) for _ in range(2)]
    answers += [wire.get(path) for path in ("/livez", "/readyz", "/healthz")]
    assert [answer.status for answer in answers] == [503] * len(answers)
    for answer in answers[3:]:
        (failed,) = [check for check in answer.json()["checks"] if check["status"] == "fail"]
        assert failed["name"] == "commits"
        assert "The store has stopped: a commit failed" in failed["reason"]
    assert not any(str(tmp_path).encode() in answer.body for answer in answers)
    (said,) = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert "has stopped" in said.getMessage()
    assert str(tmp_path) in said.getMessage()


def test_damaged_data_is_told_without_the_folder(wire: Wire, tmp_path: Path) -> None:
    wire.publish({"recipient": "ada", "data": "x" * 600_000})
    (file,) = (tmp_path / "data" / "blobs").iterdir()
    file.unlink()
    answers = [wire.get("/v1/recipients/ada/peek"), wire.get("/v1/recipients/ada/messages")]
    assert [(answer.status, answer.problem["code"]) for answer in answers] == [(500, "data_damaged")] * 2
    assert not any(str(tmp_path).encode() in answer.body for answer in answers)


def test_a_hub_that_is_closing_is_not_ready(wire: Wire, running: ServedHub) -> None:
    asyncio.run_coroutine_threadsafe(_set(running.desk.draining), running._loop).result()  # type: ignore[arg-type]
    answer = wire.get("/readyz")
    assert answer.status == 503
    assert "shutting down" in answer.json()["checks"][0]["reason"]


async def _set(event: asyncio.Event) -> None:
    event.set()


def test_metrics_count_what_happened(wire: Wire) -> None:
    message = {"recipient": "ada", "id": "0190b4d2-7b3e-7c10-8a55-3f2d5e6c7b8a", "data": 1}
    wire.publish(message, {"recipient": "ada", "data": 2})
    wire.publish(message)
    bundle = wire.get("/v1/recipients/ada/peek").headers["restante-bundle-id"]
    wire("DELETE", f"/v1/recipients/ada/bundles/{bundle}")
    wire.publish({"recipient": "bob", "data": 3})
    wire.get("/v1/nowhere")
    answer = wire.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = dict(re.findall(r"^(restante_\S+) ([0-9.e+-]+)$", answer.body.decode(), re.MULTILINE))
    assert values["restante_messages_accepted_total"] == "3.0"
    assert values["restante_messages_duplicate_total"] == "1.0"
    assert values["restante_messages_collected_total"] == "2.0"
    assert values["restante_bundles_answered_total"] == "1.0"
    assert values["restante_messages_waiting"] == "1.0"
    assert values['restante_requests_total{method="POST",route="/v1/messages",status="201"}'] == "3.0"
    assert values['restante_requests_total{method="none",route="none",status="404"}'] == "1.0"
    assert float(values["restante_store_bytes"]) > 0


def test_metrics_do_not_grow_with_recipients(wire: Wire) -> None:
    def lines() -> int:
        return len(wire.get("/metrics").body.splitlines())

    wire.get("/v1/recipients/ada/peek")
    wire.get("/v1/nowhere")
    lines()
    before = lines()
    for number in range(50):
        wire.get(f"/v1/recipients/r{number}/peek")
        wire.get(f"/v1/nowhere/{number}")
    assert lines() == before


def test_every_answer_carries_a_correlation_id(wire: Wire) -> None:
    own = wire.get("/livez", restante_correlation_id="night-7/a")
    assert own.headers["restante-correlation-id"] == "night-7/a"
    made = {wire.get("/v1/nowhere").headers["restante-correlation-id"] for _ in range(5)}
    assert len(made) == 5
    for unfit in ("x" * 129, "a b", "\x7f", "é"):
        answer = wire.get("/livez", restante_correlation_id=unfit)
        assert answer.headers["restante-correlation-id"] != unfit
    assert wire.get("/livez", restante_correlation_id="x" * 128).headers["restante-correlation-id"] == "x" * 128


def test_a_defect_is_a_500_that_says_nothing_of_the_inside(
    wire: Wire, running: ServedHub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(type(running.desk.hub), "call", broken)
    answer = wire.get("/v1/recipients/ada/explain", restante_correlation_id="seek-me")
    assert (answer.status, answer.problem["code"]) == (500, "internal")
    assert answer.problem["correlation_id"] == "seek-me"
    assert b"secret" not in answer.body
    assert any("a secret of the inside" in str(record.exc_info) for record in caplog.records)


def test_logs_are_json_lines_with_the_correlation_id(
    wire: Wire, running: ServedHub, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(JsonFormatter().format(record))

    logger = logging.getLogger("restante.server")
    keep = Keep()
    logger.addHandler(keep)
    logger.setLevel(logging.DEBUG)
    try:
        wire.get(
            "/v1/recipients/ada/peek?origin=hidden",
            restante_correlation_id="seek-me",
            authorization="Bearer rst_secret",
        )
    finally:
        logger.removeHandler(keep)
        logger.setLevel(logging.NOTSET)
    (line,) = [json.loads(line) for line in lines]
    assert (line["client"], line["caller"]) == ("127.0.0.1", "everyone")
    assert line["correlation_id"] == "seek-me"
    assert (line["route"], line["status"], line["level"]) == ("/v1/recipients/{recipient}/peek", 204, "debug")
    assert "rst_secret" not in lines[0]


def test_text_logs_tell_the_same() -> None:
    record = logging.LogRecord("restante.server", logging.INFO, "", 0, "request", (), None)
    record.fields = {"status": 404, "code": "not_found"}
    line = TextFormatter().format(record)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z info restante.server: request status=404 code=not_found", line)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/v1/messages", "POST"),
        ("GET", "/v1/messages", "POST"),
        ("POST", "/v1/recipients/ada/peek", "GET"),
        ("PATCH", "/v1/recipients/ada/messages/7", "DELETE, GET"),
    ],
)
def test_a_method_that_is_not_allowed_is_a_405_with_those_that_are(
    wire: Wire, method: str, path: str, allow: str
) -> None:
    answer = wire(method, path)
    assert (answer.status, answer.problem["code"], answer.headers["allow"]) == (405, "method_not_allowed", allow)


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/messages/", "/v2/messages", "//v1/messages", "/v1/recipients/a/b"]
)
def test_an_address_with_nothing_at_it_is_a_404(wire: Wire, path: str) -> None:
    answer = wire("POST", path)
    assert (answer.status, answer.problem["code"]) == (404, "not_found")

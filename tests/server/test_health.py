"""Health, metrics, logs, correlation ids: what operators see."""

from __future__ import annotations

import asyncio
import json
import logging
import re

import pytest

from restante.server.logs import JsonFormatter, TextFormatter
from restante.server.routes import health
from restante.server.serving import Running
from tests.server.wire import Wire

CHECKS = {
    "/livez": ["commits"],
    "/readyz": ["accepting", "commits", "disk", "filing"],
    "/startupz": ["started"],
    "/healthz": ["started", "commits", "accepting", "disk", "filing"],
}


@pytest.mark.parametrize("path", list(CHECKS))
def test_a_hub_that_is_well_says_so_check_by_check(wire: Wire, path: str) -> None:
    answer = wire.get(path)
    assert (answer.status, answer.json()["status"]) == (200, "pass")
    assert sorted(check["name"] for check in answer.json()["checks"]) == sorted(CHECKS[path])
    assert all(check["status"] == "pass" and check["duration_ms"] >= 0 for check in answer.json()["checks"])


def test_what_is_not_well_has_its_reason(wire: Wire, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "DISK_FREE_BYTES_MIN", 2**62)
    answer = wire.get("/readyz")
    assert (answer.status, answer.json()["status"]) == (503, "fail")
    failed = [check for check in answer.json()["checks"] if check["status"] == "fail"]
    assert [check["name"] for check in failed] == ["disk"]
    assert "bytes are free" in failed[0]["reason"]
    assert wire.get("/livez").status == 200


def test_slow_publishes_and_a_dead_committer_are_not_well(wire: Wire, running: Running) -> None:
    for _ in range(9):
        running.desk.metrics.publish(3.0)
    assert "3.0 s" in wire.get("/livez").json()["checks"][0]["reason"]
    for _ in range(20):
        running.desk.metrics.publish(0.1)
    assert wire.get("/livez").status == 200
    running.desk.hub.core.committer._broken = True
    assert wire.get("/livez").status == 503


def test_a_hub_that_is_closing_is_not_ready(wire: Wire, running: Running) -> None:
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
    wire: Wire, running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(type(running.desk.hub), "explain", broken)
    answer = wire.get("/v1/recipients/ada/explain", restante_correlation_id="seek-me")
    assert (answer.status, answer.problem["code"]) == (500, "internal")
    assert answer.problem["correlation_id"] == "seek-me"
    assert b"secret" not in answer.body
    assert any("a secret of the inside" in str(record.exc_info) for record in caplog.records)


def test_logs_are_json_lines_with_the_correlation_id(
    wire: Wire, running: Running, caplog: pytest.LogCaptureFixture
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

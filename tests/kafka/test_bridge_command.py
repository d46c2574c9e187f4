"""`restante bridge` on the command line, against a hub and a Kafka that run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from restante.client.surface.surface import Hub
from restante.server.serve import ServedHub
from tests.kafka.broker import Broker
from tests.waiting import wait_until

QUICK = ("--kafka", "session.timeout.ms=2000", "--kafka", "heartbeat.interval.ms=500")
"""Kafka soon gives away what a killed process had."""
pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]


def bridge(served: ServedHub, broker: Broker, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "restante", "bridge", *arguments, "--hub", served.url, "--brokers", broker.address]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_in_show_and_out(broker: Broker, served: ServedHub, hub: Hub) -> None:
    topic, back = broker.topic("command", partitions=2), broker.topic("back", partitions=1)
    broker.produce(topic, [{"key": f"c{n % 3}", "value": b'{"n": %d}' % n} for n in range(30)])
    done = bridge(served, broker, "in", "--topic", topic, "--kind", "order", "--until-end")
    assert (done.returncode, "30 stored" in done.stdout) == (0, True), done
    shown = bridge(served, broker, "show", "--topic", topic, "--json")
    lags = json.loads(shown.stdout)
    assert (sum(one["messages"] for one in lags), sum(one["lag"] for one in lags)) == (30, 0)
    assert f"{topic}/0" in bridge(served, broker, "show", "--topic", topic).stdout
    out = bridge(served, broker, "out", "--topic", back, "--kind", "order", "--until-end")
    assert (out.returncode, len(broker.read(back))) == (0, 30), out


def test_a_file_with_several_topics(broker: Broker, served: ServedHub, hub: Hub, tmp_path: Path) -> None:
    one, other = broker.topic("one", partitions=1), broker.topic("other", partitions=1)
    broker.produce(one, [{"key": "a", "value": b"1"}])
    broker.produce(other, [{"value": b'{"to":"b"}'}])
    file = tmp_path / "bridges.toml"
    file.write_text(
        f'[kafka]\nbrokers = "{broker.address}"\n'
        f'[[in]]\ntopic = "{one}"\nvalues = "text"\n[[in]]\ntopic = "{other}"\nrecipient = "json:to"\n'
    )
    done = bridge(served, broker, "in", "--file", str(file), "--group", "file", "--until-end")
    assert done.returncode == 0, done
    assert [len(hub.recipient(name).history().messages) for name in "ab"] == [1, 1]
    file.write_text("[[in]]\ntopic = 5\n")
    mixed = bridge(served, broker, "in", "--file", str(file), "--kind", "x")
    assert (mixed.returncode, "With --file" in mixed.stderr) == (2, True), mixed
    wrong = bridge(served, broker, "in", "--file", str(file))
    assert (wrong.returncode, "invalid_settings" in wrong.stderr) == (1, True), wrong


def test_mistakes_are_said_in_a_line(broker: Broker, served: ServedHub) -> None:
    missing = bridge(served, broker, "in", "--topic", "nobody-made-it")
    assert (missing.returncode, "no topic" in missing.stderr) == (1, True), missing
    own = bridge(served, broker, "in", "--topic", "x", "--kafka", "group.id=mine")
    assert (own.returncode, "hub's own" in own.stderr) == (1, True), own
    secret = bridge(served, broker, "in", "--topic", "x", "--kafka", "sasl.password=env:NOT_SET_ANYWHERE")
    assert "NOT_SET_ANYWHERE" in secret.stderr
    topic = broker.topic("letters")
    dead = bridge(served, broker, "in", "--topic", topic, "--dead-letter", "nobody-made-this")
    assert (dead.returncode, "no topic 'nobody-made-this'" in dead.stderr) == (1, True), dead
    for command in ("in", "out", "show"):
        wrong = bridge(served, broker, command, "--topic", topic, "--kafka", "security.protocol=nope")
        assert (wrong.returncode, len(wrong.stderr.splitlines())) == (1, 1), wrong
        assert "invalid_settings: Kafka's client does not take a setting" in wrong.stderr
    loop = bridge(served, broker, "in", "--topic", topic, "--dead-letter", topic)
    assert (loop.returncode, "come back for ever" in loop.stderr) == (1, True), loop


def test_a_bridge_waits_for_a_broker_that_is_not_there_yet(served: ServedHub, hub: Hub, tmp_path: Path) -> None:
    late = Broker(tmp_path / "late")
    late.start()
    topic = late.topic("late", partitions=1)
    late.produce(topic, [{"key": "ada", "value": b"1"}])
    late.stop()
    command = [sys.executable, "-m", "restante", "bridge", "in", "--topic", topic, "--until-end"]
    process = subprocess.Popen(
        [*command, "--hub", served.url, "--brokers", late.address], stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        assert any(b"tried again" in line for line in process.stderr)
        late.start()
        output, _ = process.communicate(timeout=120)
        assert (process.returncode, b"1 stored" in output) == (0, True), output
    finally:
        process.kill()
        late.stop()


def test_a_bridge_that_is_killed_and_started_again_repeats_nothing(broker: Broker, served: ServedHub, hub: Hub) -> None:
    topic = broker.topic("killed", partitions=2)
    broker.produce(topic, [{"key": f"c{n % 4}", "value": b'{"n": %d}' % n} for n in range(4_000)])
    arguments = [
        "--topic",
        topic,
        "--group",
        "killed",
        "--batch",
        "50",
        "--hub",
        served.url,
        "--brokers",
        broker.address,
    ]
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-m", "restante", "bridge", "in", *arguments, *QUICK],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ},
        )
        before = _waiting(hub)
        wanted = min(before + 300, 4_000)
        wait_until(lambda wanted=wanted: _waiting(hub) >= wanted, "300 records more")  # type: ignore[misc]
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = bridge(served, broker, "in", "--topic", topic, "--group", "killed", "--until-end", *QUICK)
    assert done.returncode == 0, done
    for c in range(4):
        found = hub.recipient(f"c{c}").history(limit=1_000).messages
        assert [one.data["n"] for one in found] == list(range(c, 4_000, 4))


def _waiting(hub: Hub) -> int:
    return sum(status.waiting for status in hub.partitions())

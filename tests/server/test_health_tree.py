"""The tree of health on a hub to which these things really happen: each turns its leaf."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from restante.assembly import open_store
from restante.calls.feed import ReadFeed, ReadSnapshot
from restante.calls.groups import DefineGroup, JoinGroup, WriteCheckpoint
from restante.calls.mailboxes import ListPartitions
from restante.errors import InvalidRequest, Unavailable
from restante.hub.batches.memory import BatchMemory
from restante.hub.doctor.doctor import examine
from restante.hub.engine import filing
from restante.hub.engine.core import Core
from restante.hub.engine.health_sources import HealthSources
from restante.hub.health import deep_check as module
from restante.hub.health.deep_check import _write, deep_check, forget_checks, health_recipient
from restante.hub.mailboxes.calls import peek_bundle
from restante.model.access.access import Role
from restante.model.health.bounds import ROUND_SECONDS, Reading
from restante.model.health.tree import HealthLeaf
from restante.model.storage.partition import partition_of
from restante.ports.content import Content, ContentRequest, OriginPort
from restante.server.access.tokens import TokenFile
from restante.server.health import health_rounds
from restante.server.health.health_rounds import LATE_ROUNDS
from restante.server.routes.health import whole_health
from restante.server.serve import ServedHub, Service, start
from restante.settings import (
    BoundSettings,
    GroupSettings,
    HealthBounds,
    HealthSettings,
    OriginSettings,
    ServerSettings,
    Settings,
    WebhookSettings,
)
from restante.stores.sqlite import SqliteStore
from tests.server.wire import Wire
from tests.waiting import wait_until
from tests.webhooks.receiver import receiving, says


def settings_with(**health: Any) -> Settings:
    return Settings(partition_count=4, health=HealthSettings(**{"bounds": bounded(), **health}))


def bounded(**bounds: tuple[float, float]) -> HealthBounds:
    """How quick this machine is today is no matter of these tests, unless they say so."""
    never = (1e9, 1e9)
    given = {"store_commit": never, "api_latency": never, **bounds}
    return HealthBounds(**{name: BoundSettings(yellow=yellow, red=red) for name, (yellow, red) in given.items()})


@contextmanager
def served(folder: Path, settings: Settings | None = None, **given: Any) -> Iterator[tuple[ServedHub, Wire]]:
    with start(folder / "data", settings or settings_with(), **given) as running:
        wire = Wire(running.url)
        yield running, wire
        wire.close()


def leaves(running: ServedHub, wire: Wire, *, deeply: bool = False) -> dict[str, str]:
    """The state of each component after one more round, as the hub answers it."""
    running.desk.health.look(deeply=deeply)
    answer = wire.get("/v1/health")
    assert answer.status == 200
    return {part["name"]: part["state"] for flow in answer.json()["parts"] for part in flow["parts"]}


def not_green(states: dict[str, str]) -> dict[str, str]:
    return {name: state for name, state in states.items() if state != "green"}


def reasons(wire: Wire, component: str) -> str:
    found = [part for flow in wire.get("/v1/health").json()["parts"] for part in flow["parts"]]
    measures = [measure for part in found if part["name"] == component for measure in part["measures"]]
    return " ".join(measure.get("reason", "") for measure in measures)


def failing(wire: Wire) -> dict[str, str]:
    """The checks of `/healthz` that fail."""
    answer = wire.get("/healthz")
    failed = {check["name"]: check["reason"] for check in answer.json()["checks"] if check["status"] == "fail"}
    assert answer.status == (503 if failed else 200)
    return failed


def test_a_hub_that_is_well_is_green_and_says_what_it_did_not_measure(tmp_path: Path) -> None:
    with served(tmp_path) as (running, wire):
        wire.publish({"recipient": "ada", "data": 1})
        assert not_green(leaves(running, wire, deeply=True)) == {}
        answer = wire.get("/v1/health?history=true")
        tree = answer.json()
        assert answer.headers["cache-control"] == "no-store"
        assert (tree["name"], tree["state"], tree["score"]) == ("system", "green", 1.0)
        measured = {part["name"]: part["measured"] for flow in tree["parts"] for part in flow["parts"]}
        unmeasured = {name for name, yes in measured.items() if not yes}
        assert unmeasured == {"webhooks", "origins", "jobs", "nodes"}
        assert [minute["state"] for minute in tree["history"]] in (["green"], ["green", "green"])
        assert wire.get("/v1/health?history=maybe").problem["code"] == "invalid_request"


def test_after_a_failed_flush_the_store_is_red(tmp_path: Path) -> None:
    with served(tmp_path) as (running, wire):
        store = running.desk.hub.core.store
        assert isinstance(store, SqliteStore)
        wire.publish({"recipient": "ada", "data": 1})
        file = store._log._file
        assert file is not None
        # A device that takes every write, and cannot be flushed.
        null, kept = os.open("/dev/null", os.O_RDWR), os.dup(file._descriptor)
        os.dup2(null, file._descriptor)
        assert wire.publish({"recipient": "ada", "data": 2}).status == 503
        os.dup2(kept, file._descriptor)
        os.close(null)
        os.close(kept)
        states = leaves(running, wire, deeply=True)
        assert states["store"] == "red"
        assert "The store has stopped" in reasons(wire, "store")
        assert {"commits", "deep_write"} <= failing(wire).keys()
        for _ in range(3):
            wire.publish({"recipient": "ada", "data": 3})
        assert leaves(running, wire)["committer"] == "yellow"
        assert wire.get("/v1/health").json()["score"] <= 0.25


def test_a_store_that_has_stopped_fails_the_deep_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path) as (running, wire):

        def stopped(changes: object) -> None:
            raise Unavailable("The store has stopped.")

        with monkeypatch.context() as patched:
            patched.setattr(running.desk.hub.core.store, "commit", stopped)
            assert not_green(leaves(running, wire, deeply=True))["store"] == "red"
            assert "partition 0" in failing(wire)["deep_write"]
        # It is checked again where it failed, and then it is well.
        assert leaves(running, wire, deeply=True)["store"] == "green"
        assert failing(wire) == {}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_turns_its_component_red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> int:
        raise SystemExit

    with served(tmp_path) as (running, wire):
        assert leaves(running, wire)["filing"] == "green"
        (thread,) = [one for one, task in running.desk.hub._background._threads if task.name == "filing"]
        with monkeypatch.context() as patched:
            patched.setattr(filing, "guarded", die)
            for _ in range(200):
                wire.publish({"recipient": "ada", "data": 1})
                if not thread.is_alive():
                    break
            thread.join()
        assert not_green(leaves(running, wire)) == {"filing": "red"}
        assert "The thread of filing has died" in reasons(wire, "filing")
        assert failing(wire) == {}  # it still serves


def test_a_committer_that_died_is_red_at_once(tmp_path: Path) -> None:
    with served(tmp_path) as (running, wire):
        running.desk.hub.core.committer._broken = True
        assert "commits" in failing(wire)
        assert leaves(running, wire)["committer"] == "red"
        running.desk.hub.core.committer._broken = False


def test_a_task_of_the_server_that_ended_turns_the_doors_red(tmp_path: Path) -> None:
    with served(tmp_path) as (running, wire):
        post = running.desk.post
        assert leaves(running, wire)["doors"] == "green"
        (task,) = [one for one in _tasks(running) if "ConnectedClients.run" in repr(one.get_coro())]
        assert running._loop is not None
        ended = threading.Event()
        task.add_done_callback(lambda _: ended.set())
        running._loop.call_soon_threadsafe(task.cancel)
        ended.wait()
        assert leaves(running, wire)["doors"] == "red"
        assert post is running.desk.post


def _tasks(running: ServedHub) -> list[Any]:
    assert running._loop is not None
    return list(asyncio.all_tasks(running._loop))


def test_a_disk_nearly_full_is_yellow_and_then_red(tmp_path: Path) -> None:
    for bounds, state in (((101, 0), "yellow"), ((101, 100.5), "red")):
        with served(tmp_path, settings_with(bounds=bounded(disk_left=bounds))) as (running, wire):
            assert not_green(leaves(running, wire)) == {"store": state}
            assert "bytes are free" in reasons(wire, "store")
            assert list(failing(wire)) == (["disk"] if state == "red" else [])
            assert wire.get("/readyz").status == 200


def test_removing_the_switch_file_takes_the_node_out_of_the_rotation(tmp_path: Path) -> None:
    switch = tmp_path / "in-rotation"
    switch.touch()
    with served(tmp_path, settings_with(switch_file=str(switch))) as (running, wire):
        assert failing(wire) == {}
        assert "switch_file" in [check["name"] for check in wire.get("/healthz").json()["checks"]]
        switch.unlink()
        assert failing(wire) == {}  # from the cache
        running.desk.health.look()
        assert list(failing(wire)) == ["switch_file"]
        assert str(tmp_path) not in failing(wire)["switch_file"]
        assert wire.get("/readyz").status == 200
        switch.touch()
        running.desk.health.look()
        assert failing(wire) == {}


def test_what_is_disabled_is_not_looked_at(tmp_path: Path) -> None:
    disabled = ("disk", "store", "deep_write", "switch_file")
    settings = settings_with(
        disabled=disabled, bounds=bounded(disk_left=(101, 100.5)), switch_file=str(tmp_path / "missing")
    )
    with served(tmp_path, settings) as (running, wire):
        assert not_green(leaves(running, wire, deeply=True)) == {}
        assert [check["name"] for check in wire.get("/healthz").json()["checks"]] == [
            *("started", "commits", "accepting", "filing"),
        ]
        assert running.desk.hub.call(ListPartitions())[0].visible_sequence == 0


@pytest.mark.parametrize(
    ("disabled", "checks"),
    [
        ("store", ["filing"]),
        ("disk", ["filing", "deep_write"]),
        ("deep_write", ["disk", "filing"]),
        ("filing", ["disk", "deep_write"]),
        ("unfiled_runs", ["disk", "deep_write"]),
    ],
)
def test_what_is_disabled_is_disabled_for_every_probe_and_in_the_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disabled: str, checks: list[str]
) -> None:
    bad = bounded(disk_left=(101, 100.5), unfiled_runs=(0, 0))
    with served(tmp_path, settings_with(disabled=(disabled,), bounds=bad)) as (running, wire):
        monkeypatch.setattr("restante.server.routes.health.DISK_FREE_BYTES_MIN", 2**70)
        monkeypatch.setattr("restante.server.routes.health.UNFILED_RUNS_MAX", -1)
        monkeypatch.setattr(type(running.desk.hub), "deep_check", lambda *_: "It failed.")
        monkeypatch.setattr(type(running.desk.hub), "seconds_without_room", lambda _: 0.0)
        red = not_green(leaves(running, wire, deeply=True))
        assert red.keys() == {
            *(["store"] if {"disk", "deep_write"} & set(checks) else []),
            *(["filing"] if "filing" in checks else []),
        }
        assert sorted(failing(wire)) == sorted(checks)
        ready = [check["name"] for check in wire.get("/readyz").json()["checks"] if check["status"] == "fail"]
        assert ready == [name for name in checks if name != "deep_write"]


def test_a_disk_that_is_not_measured_fails_no_probe_while_commits_find_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_with(disabled=("disk_left",), bounds=bounded(disk_left=(101, 100.5)))
    with served(tmp_path, settings) as (running, wire):
        monkeypatch.setattr("restante.server.routes.health.DISK_FREE_BYTES_MIN", 2**70)
        for without_room, expected in ((10**6, []), (0.0, ["disk"])):
            monkeypatch.setattr(type(running.desk.hub), "seconds_without_room", lambda _, own=without_room: own)
            monkeypatch.setattr(
                type(running.desk.hub.core.committer), "seconds_without_room", lambda _, o=without_room: o
            )
            assert [*not_green(leaves(running, wire))] == [*(["store"] if expected else [])]
            assert [*failing(wire)] == expected
            ready = [check["name"] for check in wire.get("/readyz").json()["checks"] if check["status"] == "fail"]
            assert ready == expected


def test_requests_that_fail_turn_the_doors_and_those_that_wait_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path, settings_with(bounds=bounded(api_latency=(400, 500)))) as (running, wire):
        assert leaves(running, wire)["doors"] == "green"
        assert wire.get("/v1/recipients/ada/peek?wait=0.6").status == 204
        assert leaves(running, wire)["doors"] == "green"

        def broken(*args: object, **kwargs: object) -> None:
            raise RuntimeError("inside")

        with monkeypatch.context() as patched:
            patched.setattr(type(running.desk.hub), "call", broken)
            assert {wire.get("/v1/recipients/ada/explain").status for _ in range(10)} == {500}
        assert not_green(leaves(running, wire)) == {"doors": "yellow"}


def test_a_member_that_waits_for_what_is_next_does_not_turn_the_doors(tmp_path: Path) -> None:
    with served(tmp_path, settings_with(bounds=bounded(api_latency=(200, 10_000)))) as (running, wire):
        assert wire("PUT", "/v1/groups/idle", {}).status == 200
        joined = wire("POST", "/v1/groups/idle/members", {"member": "a"}).json()
        path = f"/v1/groups/idle/members/{joined['member_id']}/next"
        assert wire("POST", path, {"after": joined["partitions"], "wait": 2}).status == 200
        assert leaves(running, wire)["doors"] == "green"


def test_slow_requests_and_slow_commits_turn_their_leaves(tmp_path: Path) -> None:
    bounds = bounded(api_latency=(0.0001, 10_000), store_commit=(0.00001, 0.0001))
    with served(tmp_path, settings_with(bounds=bounds)) as (running, wire):
        assert leaves(running, wire)["store"] == "green"
        wire.publish({"recipient": "ada", "data": 1})
        assert not_green(leaves(running, wire)) == {"store": "red", "doors": "yellow"}


def test_an_origin_that_does_not_deliver_turns_the_origins(tmp_path: Path) -> None:
    def deliver(request: ContentRequest) -> Content:
        raise Unavailable("not now")

    settings = Settings(origins={"far": OriginSettings()}, health=HealthSettings(bounds=bounded()))
    with served(tmp_path, settings, origins={"far": OriginPort(content=deliver)}) as (running, wire):
        assert leaves(running, wire)["origins"] == "green"
        wire.publish({"recipient": "ada", "origin": "far", "weight": 5})
        for _ in range(3):
            assert wire.get("/v1/recipients/ada/peek").status == 204
        assert not_green(leaves(running, wire)) == {"origins": "yellow"}
        assert failing(wire) == {}


def test_a_webhook_that_refuses_turns_the_webhooks(tmp_path: Path) -> None:
    settings = Settings(
        webhooks=WebhookSettings(allowed_networks=("127.0.0.0/8",)),
        health=HealthSettings(bounds=bounded(failures=(1, 100))),
    )
    with receiving() as receiver, served(tmp_path, settings) as (running, wire):
        assert leaves(running, wire)["webhooks"] == "green"
        receiver.answer = says(500, 200)
        batch = wire("POST", "/v1/batches", {"webhook": {"url": receiver.url}}).json()["id"]
        wire("POST", f"/v1/batches/{batch}/seal")
        receiver.next()
        receiver.next()
        totals = running.desk.hub.core.memory(BatchMemory)
        wait_until(lambda: totals.notices_failed, "the second notice has failed")
        assert leaves(running, wire)["webhooks"] == "yellow"


def test_subjects_register_their_own_leaves(tmp_path: Path) -> None:
    with served(tmp_path) as (running, wire):
        lag = {"billing": 31.0, "mail": 0.0}

        def groups() -> list[HealthLeaf]:
            reading = {name: Reading(name="oldest_unread", value=age, unit="seconds") for name, age in lag.items()}
            return [HealthLeaf(component="groups", part=name, readings=(one,)) for name, one in reading.items()]

        running.desk.hub.core.memory(HealthSources).register_parts("groups", groups)
        assert not_green(leaves(running, wire)) == {"groups": "yellow"}
        lag["billing"] = 300.0
        assert not_green(leaves(running, wire)) == {"groups": "red"}
        text = wire.get("/metrics").body.decode()
        assert 'restante_health_state{leaf="groups/billing"} 2.0' in text
        assert 'restante_health_state{leaf="groups/mail"} 0.0' in text
        assert failing(wire) == {}  # groups never take a node out of the rotation

        def broken() -> list[HealthLeaf]:
            raise RuntimeError("inside")

        running.desk.hub.core.memory(HealthSources).register_parts("jobs", broken)
        assert leaves(running, wire)["jobs"] == "red"


def test_a_group_that_stands_still_turns_its_leaf(tmp_path: Path) -> None:
    now = [1_800_000_000_000_000]
    settings = msgspec.structs.replace(settings_with(), groups=GroupSettings(heartbeat_seconds=600))
    with served(tmp_path, settings, clock=lambda: now[0]) as (running, wire):
        hub = running.desk.hub
        for name in ("billing", "nobody"):
            hub.call(DefineGroup(name))
        member = hub.call(JoinGroup("billing", "one"))
        wire.publish({"recipient": "ada", "data": 1})
        assert not_green(leaves(running, wire)) == {}
        now[0] += 31_000_000
        assert not_green(leaves(running, wire)) == {"groups": "yellow"}
        now[0] += 270_000_000
        assert not_green(leaves(running, wire)) == {"groups": "red"}
        text = wire.get("/metrics").body.decode()
        assert 'restante_health_state{leaf="groups/billing"} 2.0' in text
        assert 'restante_health_value{leaf="groups/billing",measure="oldest_unread",unit="seconds"} 301.0' in text
        assert 'restante_health_state{leaf="groups/nobody"} 0.0' in text  # it has no members and no actions
        assert failing(wire) == {}
        for own in member.partitions:
            end = hub.call(ListPartitions())[own.partition].visible_sequence
            hub.call(WriteCheckpoint("billing", own.partition, end, own.generation))
        assert not_green(leaves(running, wire)) == {}


def test_every_leaf_is_a_metric(tmp_path: Path) -> None:
    with served(tmp_path) as (running, wire):
        states = leaves(running, wire)
        text = wire.get("/metrics").body.decode()
        assert set(re.findall(r'^restante_health_state{leaf="([^"]+)"} 0\.0$', text, re.MULTILINE)) == set(states)
        assert re.search(
            r'^restante_health_value{leaf="store",measure="disk_left",unit="percent"} \d', text, re.MULTILINE
        )
        assert "\nrestante_health_score 1.0\n" in text


def test_deep_checks_really_write_in_each_partition_and_leave_no_trace_in_any_count(tmp_path: Path) -> None:
    with served(tmp_path) as (running, wire):
        wire.publish({"recipient": "ada", "data": 1})
        hub = running.desk.hub
        before = hub.call(ListPartitions())
        for _ in before:
            assert leaves(running, wire, deeply=True)["store"] == "green"
        after = hub.call(ListPartitions())
        assert [one.visible_sequence - two.visible_sequence for one, two in zip(after, before, strict=True)] == [2] * 4
        assert [status.waiting for status in after] == [status.waiting for status in before]
        assert [one["recipient"] for one in wire.get("/v1/recipients").json()["recipients"]] == ["ada"]
        text = wire.get("/metrics").body.decode()
        assert "\nrestante_messages_accepted_total 1.0\n" in text
        assert "\nrestante_messages_collected_total 0.0\n" in text
        assert seen_by_readers(running) == (["ada"], ["ada"])
        wire("POST", "/v1/maintenance/file")
        assert seen_by_readers(running) == (["ada"], ["ada"])
        own = wire.get(f"/v1/recipients/{health_recipient(2, 4)}/messages").json()["messages"]
        assert [(message["origin"], message["state"]) for message in own] == [("restante.health", "collected")]


def test_no_count_shows_a_check_message_while_it_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path) as (running, wire):
        wire.publish({"recipient": "ada", "data": 1})
        hub, seen = running.desk.hub, []

        def peek(*given: Any) -> Any:
            seen.append((sum(status.waiting for status in hub.call(ListPartitions())), hub.core.partitions[2].counters))
            return peek_bundle(*given)

        monkeypatch.setattr(module, "peek_bundle", peek)
        assert hub.deep_check(2) is None
        ((waiting, counters),) = seen
        ada = hub.locate("ada").partition
        assert (waiting, counters.waiting) == (1, 1 if ada != 2 else 2)
        assert sum(status.waiting for status in hub.call(ListPartitions())) == 1


def test_a_check_message_that_is_not_found_again_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub so slow that its message has expired when it reads it back."""
    now = [1_800_000_000_000_000]
    with served(tmp_path, clock=lambda: now[0]) as (running, wire):

        def slow(*given: Any) -> Any:
            now[0] += 11_000_000
            return peek_bundle(*given)

        with monkeypatch.context() as patched:
            patched.setattr(module, "peek_bundle", slow)
            assert leaves(running, wire, deeply=True)["store"] == "red"
        assert "not found again (nothing_waiting)" in failing(wire)["deep_write"]
        assert leaves(running, wire, deeply=True)["store"] == "green"


def test_a_reader_that_waits_is_not_woken_by_a_check(tmp_path: Path) -> None:
    with served(tmp_path) as (running, wire):
        hub = running.desk.hub
        recipient = next(name for number in range(100) if hub.locate(name := f"r{number}").partition == 0)
        answers: list[Any] = []
        reader = threading.Thread(target=lambda: answers.append(hub.call(ReadFeed(0, after=0, wait=30))))
        reader.start()
        for _ in range(3):
            assert hub.deep_check(0) is None
        assert not answers
        wire.publish({"recipient": recipient, "data": 1})
        reader.join()
        (answer,) = answers
        assert (answer.table["recipient"].to_pylist(), answer.next) == ([recipient], 7)


def test_checks_leave_history_after_an_hour_and_nothing_else_does(tmp_path: Path) -> None:
    now = [1_800_000_000_000_000]
    with served(tmp_path, clock=lambda: now[0]) as (running, wire):
        core = running.desk.hub.core
        wire.publish(*[{"recipient": f"r{number}", "data": 1} for number in range(20)])
        for number in range(20):
            bundle = wire.get(f"/v1/recipients/r{number}/peek").headers["restante-bundle-id"]
            wire("DELETE", f"/v1/recipients/r{number}/bundles/{bundle}")
        before = seen_by_readers(running)
        assert forget_checks(core) == 0
        for partition in (0, 1, 2, 3, 0):
            assert deep_check(core, partition) is None
        now[0] += 3_600 * 1_000_000
        assert deep_check(core, 0) is None
        assert forget_checks(core) == 5
        assert forget_checks(core) == 0
        own = wire.get(f"/v1/recipients/{health_recipient(0, 4)}/messages").json()["messages"]
        assert len(own) == 1
        assert seen_by_readers(running) == before
        wire("POST", "/v1/maintenance/file")
        wire("POST", "/v1/maintenance/retain")
        assert seen_by_readers(running) == before
        assert deep_check(core, 0) is None
        assert len(wire.get("/v1/recipients/r7/messages").json()["messages"]) == 1
    with closing(open_store(tmp_path / "data")) as store:
        assert not list(examine(store).findings)


def seen_by_readers(running: ServedHub) -> tuple[list[Any], list[Any]]:
    """The recipients of all changes of the feed, and of all messages of the snapshots."""
    changes: list[Any] = []
    messages: list[Any] = []
    for partition in range(len(running.desk.hub.core.partitions)):
        feed = running.desk.hub.call(ReadFeed(partition, after=0, limit=1_000))
        assert feed.next == feed.end
        changes += feed.table["recipient"].to_pylist()
        messages += running.desk.hub.call(ReadSnapshot(partition)).table["recipient"].to_pylist()
    return changes, messages


def test_the_mailbox_of_a_partition_lies_in_it() -> None:
    for count in (1, 2, 16, 256):
        names = [health_recipient(partition, count) for partition in range(count)]
        assert [partition_of(name, count) for name in names] == list(range(count))
        assert all(re.fullmatch(rf"restante\.health\.{n}(\.\d+)?", name) for n, name in enumerate(names))


def test_a_deep_check_passes_by_what_was_left_there(tmp_path: Path) -> None:
    """A hub that was killed in the middle of one, or somebody who looked into its mailbox."""
    with served(tmp_path) as (running, wire):
        core: Core = running.desk.hub.core
        recipient = health_recipient(1, 4)
        _write(core, core.address(recipient))
        assert wire.get(f"/v1/recipients/{recipient}/peek").status == 200
        wire.publish({"recipient": recipient, "data": "of another origin"})
        assert deep_check(core, 1) is None
        assert wire.get(f"/v1/recipients/{recipient}/peek").json()["origin"] == "default"


def test_nobody_publishes_for_the_origin_of_the_checks(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "data" / "tokens.json")
    tokens.path.parent.mkdir()
    secret = tokens.create(roles=[Role.OPERATOR])
    with pytest.raises(InvalidRequest, match=r"restante\.health is the hub's own"):
        tokens.create(roles=[Role.PUBLISHER], origins=["restante.health"])
    with start(tmp_path / "data", settings_with()) as running:
        wire = Wire(running.url, token=secret)
        for count in (1, 300):
            answer = wire.publish(*[{"recipient": "ada", "origin": "restante.health", "data": 1}] * count)
            assert (answer.status, answer.problem["code"]) == (400, "invalid_message")
            assert "the hub's own" in answer.problem["errors"][0]["detail"]
        wire.close()


def test_before_the_first_round_and_after_one_that_hangs_healthz_fails(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(settings_with(), server=ServerSettings(port=0))
    service = Service(tmp_path / "new", settings)
    try:
        status, answer = whole_health(service.desk)
        assert (status, answer.checks[-1].name) == (503, "round")
        assert "No round of checks has ended yet" in str(answer.checks[-1].reason)
        assert service.desk.health.answer(history=False) is None
        service.desk.health.look()
        assert whole_health(service.desk)[0] == 200
        late = time.monotonic() - (LATE_ROUNDS + 1) * ROUND_SECONDS
        assert service.desk.health.last is not None
        service.desk.health.last = msgspec.structs.replace(service.desk.health.last, ended_at=late)
        status, answer = whole_health(service.desk)
        assert status == 503
        assert "ended 40 s ago" in str(answer.checks[-1].reason)
    finally:
        service.desk.hub.close()
        service.sockets[0].close()


def test_a_round_that_fails_does_not_end_the_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health_rounds, "ROUND_SECONDS", 0.005)
    with served(tmp_path) as (running, _):
        looks = itertools.count(1)
        again = threading.Event()

        def look() -> None:
            if next(looks) > 2:
                again.set()
            raise RuntimeError("inside")

        monkeypatch.setattr(running.desk.health, "look", look)
        again.wait()
        thread = running.desk.health._thread
        assert thread is not None
        assert thread.is_alive()
        monkeypatch.undo()
    assert any("A round of checks failed" in record.getMessage() for record in caplog.records)

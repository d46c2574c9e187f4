"""Workers of a served hub: what becomes of actions, in which order, and how a worker comes and goes."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec
import pytest

import restante
from restante.calls.groups import DefineGroup, ReadGroup
from restante.client.surface import sync
from restante.errors import ActionTaken
from restante.model.actions.action_answers import ActionStatus
from restante.model.actions.wanted_action import WantedAction
from restante.model.publishing.message import Message
from restante.server.serve import ServedHub, start
from restante.work import Again, App, Fenced, Job, Located, Refused
from restante.work.bodies import BodyMisfit
from restante.work.worker_process import STUCK_EXIT
from tests.cluster.several import SeveralHub
from tests.waiting import wait_until
from tests.work.workers import HEARTBEAT, SETTINGS, WorkerHere, ended


class Note(msgspec.Struct):
    n: int = 0


@pytest.fixture(scope="module", params=["here", "doors"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def served(place: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHub | SeveralHub]:
    folder = tmp_path_factory.mktemp("served") / "data"
    running = SeveralHub(folder, SETTINGS) if place == "doors" else start(folder, SETTINGS)
    yield running
    running.stop()


@pytest.fixture
def hub(served: ServedHub | SeveralHub) -> Iterator[sync.Hub]:
    with restante.connect(served.url) as opened:
        yield opened


def wanted_note(action: str, concerns: str, n: int) -> WantedAction:
    return WantedAction(action=action, concerns=concerns, data=b'{"n":%d}' % n)


def outcome(status: ActionStatus) -> tuple[str, str | None]:
    problem = status.problem
    return status.state.value, None if problem is msgspec.UNSET else problem.code


def test_actions_end_as_their_handlers_say(served: ServedHub | SeveralHub, hub: sync.Hub) -> None:
    app = App("ends", wait_seconds=0.01, retries=2)
    tried: list[int] = []

    @app.action("ends.done")
    async def done(note: Note, job: Job) -> dict[str, Any]:
        return {"n": note.n, "attempt": job.attempt}

    @app.action("ends.located")
    def located(note: Note) -> Located:
        return Located(f"/notes/{note.n}")

    @app.action("ends.refused")
    async def refused() -> None:
        raise Refused("not today")

    @app.action("ends.wrong")
    async def wrong() -> None:
        raise ValueError("a secret is not here")

    @app.action("ends.again")
    async def again(job: Job) -> int:
        tried.append(job.attempt)
        if job.attempt < 3:
            raise Again("soon")
        return job.attempt

    @app.action("ends.exhausted")
    async def exhausted() -> None:
        raise OSError("away")

    with WorkerHere(app, served.url):
        app.connect(hub)
        status = ended(hub, done.send(concerns="a", data=Note(7), wait=25))
        assert (outcome(status), status.value) == (("done", None), {"n": 7, "attempt": 1})
        status = ended(hub, located.send(concerns="a", data=Note(7), wait=25))
        assert (outcome(status), status.location) == (("done", None), "/notes/7")
        status = ended(hub, refused.send(concerns="a", wait=25))
        assert outcome(status) == ("failed", "refused")
        status = ended(hub, wrong.send(concerns="a", wait=25))
        assert outcome(status) == ("poisoned", "error")
        assert isinstance(status.problem, msgspec.Struct)
        assert status.problem.detail.endswith("ValueError: a secret is not here")
        assert "attempts.py" not in status.problem.detail, "it shows the handler's lines alone"
        status = ended(hub, again.send(concerns="a", wait=25))
        assert (outcome(status), status.value, tried) == (("done", None), 3, [1, 2, 3])
        status = ended(hub, exhausted.send(concerns="a", wait=25))
        assert (outcome(status), status.attempts) == (("poisoned", "retries_exhausted"), 3)
        raw = ended(hub, hub.act("ends.done", concerns="a", data={"n": "many"}, wait=25))
        assert outcome(raw) == ("poisoned", "invalid_body")
        with pytest.raises(BodyMisfit):
            done.send(concerns="a", data={"n": "many"})
    found = {each.action: each.problem.code for each in hub.group("ends").poison()}
    assert found == {"ends.wrong": "error", "ends.exhausted": "retries_exhausted", "ends.done": "invalid_body"}


def test_what_concerns_one_thing_is_done_in_order_and_other_things_side_by_side(
    served: ServedHub | SeveralHub, hub: sync.Hub
) -> None:
    app = App("order", wait_seconds=0.01)
    done: dict[str, list[int]] = {}
    most, running = 0, 0

    @app.action("order.note")
    async def note(body: Note, job: Job) -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        if body.n % 7 == 3 and job.attempt == 1:
            raise Again("once more", seconds=0.01)
        done.setdefault(job.concerns, []).append(body.n)

    wanted = [wanted_note("order.note", f"thing {n % 20}", n) for n in range(400)]
    hub.act_all(wanted)
    with WorkerHere(app, served.url) as worker:
        wait_until(lambda: sum(map(len, done.values())) == 400, "all are done")
        assert done == {f"thing {t}": list(range(t, 400, 20)) for t in range(20)}
        assert 1 < most <= 32
        wait_until(lambda: worker.runner.counts.of("order.note").done == 400, "all are counted")
    status = hub.link.call(ReadGroup("order"))
    assert {own.oldest_unread_at for own in status.partitions} == {None}, "the position is after all that was done"
    assert status.members == (), "the worker has left"


def test_two_workers_share_and_one_takes_over_what_the_other_leaves(
    served: ServedHub | SeveralHub, hub: sync.Hub
) -> None:
    done: list[tuple[str, int]] = []

    def made(name: str) -> App:
        app = App("share")

        @app.action("share.note")
        async def note(body: Note) -> None:
            done.append((name, body.n))

        return app

    def send(first: int) -> None:
        hub.act_all([wanted_note("share.note", f"t{n}", n) for n in range(first, first + 100)])
        wait_until(lambda: len(done) >= first + 100, "all are done")

    with WorkerHere(made("one"), served.url) as one:
        wait_until(one.has_partitions, "it has all partitions")
        send(0)
        with WorkerHere(made("two"), served.url) as two:
            wait_until(lambda: two.has_partitions(2) and one.has_partitions(2), "they share")
            send(100)
            assert {name for name, _ in done[100:]} == {"one", "two"}
        wait_until(one.has_partitions, "it has all partitions again")
        send(200)
    assert sorted(n for _, n in done) == list(range(300)), "each once"


def test_a_name_of_nobody_fails_and_is_told_once(
    served: ServedHub | SeveralHub, hub: sync.Hub, caplog: pytest.LogCaptureFixture
) -> None:
    app = App("unknown")

    @app.action("unknown.known")
    async def known() -> None: ...

    with caplog.at_level(logging.WARNING, "restante.work"), WorkerHere(app, served.url):
        for _ in range(2):
            status = ended(hub, hub.act("unknown.other", concerns="a"))
            assert outcome(status) == ("failed", "action_unknown")
    own = [record.getMessage() for record in caplog.records if record.name == "restante.work"]
    told = [message for message in own if "unknown.other" in message]
    assert told == ["No group has declared the action 'unknown.other': such actions fail."]


def test_a_name_of_a_newer_release_is_left_to_a_newer_worker(served: ServedHub | SeveralHub, hub: sync.Hub) -> None:
    old, new = App("release"), App("release")
    done: list[str] = []

    @old.action("release.first")
    async def first() -> None:
        done.append("first by the old one")

    @new.action("release.first")
    async def first_too() -> None:
        done.append("first")

    @new.action("release.second")
    async def second() -> None:
        done.append("second")

    hub.link.call(DefineGroup("release", actions=("release.second",)))
    with WorkerHere(old, served.url):
        hub.act("release.second", concerns="a")
        waiting = hub.act("release.first", concerns="a")
        status = ended(hub, hub.act("release.first", concerns="b"))
        assert outcome(status) == ("done", None)
        # What was handed out counts as begun until the worker's next question says otherwise.
        wait_until(lambda: hub.outcome(waiting.id).state.value == "accepted", "its thing is parked")
    with WorkerHere(new, served.url):
        assert outcome(ended(hub, waiting)) == ("done", None)
    assert done == ["first by the old one", "second", "first"]


def test_a_name_of_another_group_is_refused_when_the_worker_joins(
    served: ServedHub | SeveralHub, hub: sync.Hub
) -> None:
    hub.link.call(DefineGroup("taken", actions=("taken.note",)))
    app = App("taker")

    @app.action("taken.note")
    async def note() -> None: ...

    worker = WorkerHere(app, served.url).start()
    worker.join()
    assert isinstance(worker.error, ActionTaken)


def test_health_checks_are_dropped_before_any_handler_and_counted(
    served: ServedHub | SeveralHub, hub: sync.Hub
) -> None:
    app, called = App("checks"), []

    @app.action("checks.note")
    async def note(job: Job) -> None:
        called.append(job.properties["HEALTHCHECK"])

    def check(value: str) -> str:
        properties = {"action": "checks.note", "HEALTHCHECK": value}
        message = Message(recipient="a", kind="action", data={}, id=f"check-{value}", properties=properties)
        hub.producer.send(message)
        return message.id or ""

    with WorkerHere(app, served.url) as worker:
        assert outcome(ended(hub, hub.outcome(check("TRUE")))) == ("done", None)
        assert outcome(ended(hub, hub.outcome(check("true")))) == ("done", None)
        assert called == ["true"]
        assert worker.runner.counts.health_checks == 1


def test_what_has_expired_is_not_begun(served: ServedHub | SeveralHub, hub: sync.Hub) -> None:
    app = App("expiry")

    @app.action("expiry.note")
    async def note() -> None:
        raise AssertionError("it must not be called")

    hub.link.call(DefineGroup("expiry", actions=("expiry.note",)))
    sent = hub.act("expiry.note", concerns="a", expires_in=0.2)
    time.sleep(0.3)
    with WorkerHere(app, served.url):
        assert ended(hub, sent).state.value == "expired"


def test_actions_sent_by_a_handler_carry_its_correlation_id_and_trace(
    served: ServedHub | SeveralHub, hub: sync.Hub
) -> None:
    app = App("chain")
    seen: list[tuple[str | None, str | None]] = []
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    @app.action("chain.first")
    async def first(job: Job) -> None:
        seen.append((job.correlation_id, job.traceparent))
        await second.send_async(concerns=job.concerns)

    @app.action("chain.second")
    def second(job: Job) -> None:
        seen.append((job.correlation_id, job.traceparent))
        third.send(concerns=job.concerns)

    @app.action("chain.third")
    async def third(job: Job) -> None:
        seen.append((job.correlation_id, job.traceparent))

    with WorkerHere(app, served.url):
        host, _, port = served.url.removeprefix("http://").partition(":")
        connection = HTTPConnection(host, int(port))
        headers = {"Restante-Correlation-Id": "night-7", "traceparent": trace, "Content-Type": "application/json"}
        connection.request("POST", "/v1/actions/chain.first", body=b'{"concerns": "a"}', headers=headers)
        assert connection.getresponse().status == 202
        connection.close()
        wait_until(lambda: len(seen) == 3, "all three are done")
    assert seen == [("night-7", trace)] * 3


def test_hooks_run_around_the_work_and_logs_name_the_action(
    served: ServedHub | SeveralHub, hub: sync.Hub, caplog: pytest.LogCaptureFixture
) -> None:
    from restante.work.attempt_log import WithAction

    app, told = App("hooks"), []

    @app.on_start
    async def begin() -> None:
        told.append("start")

    @app.on_stop
    def end() -> None:
        told.append("stop")

    @app.action("hooks.note")
    async def note() -> None:
        logging.getLogger("shop").warning("low on tea")
        told.append("done")

    caplog.handler.addFilter(WithAction())
    with WorkerHere(app, served.url):
        app.connect(hub)
        status = ended(hub, note.send(concerns="a"))
    assert told == ["start", "done", "stop"]
    (record,) = [record for record in caplog.records if record.name == "shop"]
    fields: dict[str, Any] = record.__dict__["fields"]
    assert (fields["action"], fields["id"], fields["concerns"]) == ("hooks.note", status.id, "a")


def test_a_port_and_a_file_tell_how_the_worker_is(
    served: ServedHub | SeveralHub, hub: sync.Hub, tmp_path: Path
) -> None:
    from bench.server import free_port

    app, port, file = App("watched"), free_port(), tmp_path / "live"

    @app.action("watched.note")
    async def note() -> None: ...

    def asked(path: str, method: str = "GET") -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", port)
        connection.request(method, path)
        answer = connection.getresponse()
        told = answer.status, answer.read().decode()
        connection.close()
        return told

    with WorkerHere(app, served.url, port=port, liveness_file=file):
        app.connect(hub)
        ended(hub, note.send(concerns="a"))
        wait_until(file.exists, "the file is touched")
        assert asked("/livez") == (200, "live\n")
        assert asked("/readyz") == (200, "ready\n")
        assert asked("/other")[0] == 404
        assert asked("/livez", "POST")[0] == 405
        status, figures = asked("/metrics")
        assert status == 200
        assert 'restante_work_actions_total{action="watched.note",outcome="done"} 1' in figures
        assert 'restante_work_queue_seconds_count{action="watched.note"} 1' in figures
        assert "restante_work_partitions 4" in figures
    assert not file.exists()


def test_a_thread_that_does_not_end_ends_the_worker_and_counts_as_a_death(
    served: ServedHub | SeveralHub, hub: sync.Hub
) -> None:
    hangs, app, told = threading.Event(), App("hangs"), []

    @app.action("hangs.thread", timeout=0.5)
    def thread() -> None:
        hangs.wait()

    @app.action("hangs.other")
    async def other() -> None:
        await asyncio.sleep(0.7)
        told.append("other")

    worker = WorkerHere(app, served.url).start()
    stuck = hub.act("hangs.thread", concerns="a")
    beside = hub.act("hangs.other", concerns="b")
    assert worker.join() == STUCK_EXIT
    assert outcome(ended(hub, beside)) == ("done", None), "its other work is left cleanly"
    wait_until(lambda: hub.outcome(stuck.id).deaths == 1, "a death is counted")
    hangs.set()
    with WorkerHere(app, served.url):
        status = ended(hub, stuck)
    assert (outcome(status), status.deaths) == (("done", None), 1)


def test_a_fenced_attempt_reports_nothing_and_the_worker_goes_on(served: ServedHub | SeveralHub, hub: sync.Hub) -> None:
    app, tried = App("fenced"), []

    @app.action("fenced.note")
    async def note(job: Job) -> None:
        tried.append(job.generation)
        if len(tried) == 1:
            raise Fenced("another one has it")

    with WorkerHere(app, served.url):
        app.connect(hub)
        status = ended(hub, note.send(concerns="a"))
    assert outcome(status) == ("done", None)
    assert tried[0] < tried[1], "it was done under another generation"


def test_a_worker_waits_for_a_hub_that_is_not_there_yet_and_can_be_stopped(tmp_path: Path) -> None:
    app = App("early")
    worker = WorkerHere(app, "http://127.0.0.1:1").start()
    wait_until(lambda: worker.runner.lease.member_id is None, "it is no member")
    worker.stop()
    assert worker.exit_code == 0


def test_actions_that_are_asked_for_too_often_are_all_done_in_the_end(
    served: ServedHub | SeveralHub, hub: sync.Hub
) -> None:
    app, done = App("seldom"), []

    @app.action("seldom.note", max_per_second=20)
    async def note(job: Job) -> None:
        done.append(job.id)

    with WorkerHere(app, served.url) as worker:
        wait_until(worker.has_partitions, "it has all partitions")
        hub.act_all([wanted_note("seldom.note", f"t{n}", n) for n in range(10)])
        wait_until(lambda: len(done) == 10, "all are done")
    assert len(set(done)) == 10


def test_an_async_handler_that_takes_too_long_is_cancelled_and_tried_again(
    served: ServedHub | SeveralHub, hub: sync.Hub
) -> None:
    app, cancelled = App("slow", wait_seconds=0.01, retries=3), []

    @app.action("slow.note", timeout=0.1)
    async def note(job: Job) -> int:
        if job.attempt == 1:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.append(job.id)
                raise
        return job.attempt

    with WorkerHere(app, served.url):
        app.connect(hub)
        status = ended(hub, note.send(concerns="a"))
    assert (outcome(status), status.value, len(cancelled)) == (("done", None), 2, 1)


def test_a_busy_handler_loses_no_lease(served: ServedHub | SeveralHub, hub: sync.Hub) -> None:
    app, generations = App("busy"), []

    @app.action("busy.note")
    async def note(job: Job) -> None:
        time.sleep(4 * HEARTBEAT)  # noqa: ASYNC251 - a handler that keeps the event loop busy
        generations.append(job.generation)

    with WorkerHere(app, served.url):
        app.connect(hub)
        for _ in range(2):
            assert outcome(ended(hub, note.send(concerns="a"))) == ("done", None)
    assert len(set(generations)) == 1


def test_a_thing_is_held_until_an_operator_has_decided_whichever_worker_has_it(
    served: ServedHub | SeveralHub, hub: sync.Hub
) -> None:
    app, done, broken = App("held"), [], True

    @app.action("held.note", after_poison="hold")
    async def note(body: Note) -> None:
        if broken and body.n == 1:
            raise ValueError("no")
        done.append(body.n)

    def sent(n: int, concerns: str = "a") -> ActionStatus:
        return hub.act("held.note", concerns=concerns, data={"n": n})

    with WorkerHere(app, served.url):
        poisoned, waiting = sent(1), sent(2)
        assert outcome(ended(hub, poisoned)) == ("poisoned", "error")
        assert outcome(ended(hub, sent(3, "b"))) == ("done", None), "other things go on"
    with WorkerHere(app, served.url):
        assert outcome(ended(hub, sent(4, "b"))) == ("done", None)
        # The hub presumes of a worker that it does what it was handed, until that worker has said what it does.
        wait_until(lambda: hub.outcome(waiting.id).state.value == "accepted", "the next worker holds it, too")
        assert done == [3, 4]
        broken = False
        hub.group("held").again(poisoned.id)
        assert outcome(ended(hub, poisoned)) == ("done", None)
    assert done == [3, 4, 2, 1], "what is done again comes after what waited"


def test_a_thing_goes_on_when_an_operator_decides_before_the_worker_has_looked(
    served: ServedHub | SeveralHub, hub: sync.Hub
) -> None:
    app = App("decided")

    @app.action("decided.note", after_poison="hold")
    async def note(body: Note) -> None:
        if body.n == 1:
            raise ValueError("no")

    with WorkerHere(app, served.url):
        app.connect(hub)
        poisoned = ended(hub, note.send(concerns="a", data=Note(1)))
        assert outcome(poisoned) == ("poisoned", "error")
        hub.group("decided").give_up(poisoned.id)
        assert outcome(ended(hub, note.send(concerns="a", data=Note(2)))) == ("done", None)

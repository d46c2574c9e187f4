"""Apps: what handlers take and return, how they are tried, and runs of them without a hub."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from typing import Any

import msgspec
import pydantic
import pytest

from restante.errors import InvalidRequest
from restante.model.work.results import WorkOutcome
from restante.work import Again, App, Job, Located, Refused
from restante.work.bodies import BodyMisfit
from restante.work.handlers import ActionRequest
from restante.work.testing import WorkRun, run, run_async


class Comment(msgspec.Struct):
    text: str
    rating: int = 5


@dataclasses.dataclass
class Rating:
    stars: int


class Item(pydantic.BaseModel):
    name: str
    price: float


def raw(action: str, data: bytes, concerns: str = "a", **given: Any) -> ActionRequest:
    return ActionRequest(action=action, concerns=concerns, data=msgspec.Raw(data), **given)


def outcome(ran: WorkRun, index: int = 0) -> WorkOutcome:
    found = ran.outcomes[index]
    assert found is not None
    return found


def problem(ran: WorkRun, index: int = 0) -> tuple[str, str]:
    found = outcome(ran, index).problem
    assert found is not None
    return found.code, found.detail


def test_bodies_become_what_the_handler_takes() -> None:
    app = App("shop")
    seen: list[object] = []

    @app.action("comment")
    async def comment(body: Comment, job: Job) -> None:
        seen.append((body, job.id, job.concerns, job.attempt, job.action))

    @app.action()
    async def rate(job: Job, rating: Rating) -> None:
        seen.append(rating)

    @app.action("item")
    def add(item: Item) -> None:
        seen.append(item)

    @app.action("plain")
    async def plain(body: dict[str, int]) -> None:
        seen.append(body)

    @app.action("nothing")
    async def nothing(job: Job) -> None:
        seen.append(job.correlation_id)

    ran = run(
        app,
        [
            comment.request(concerns="a", data=Comment("good"), id="first"),
            rate.request(concerns="a", data=Rating(4)),
            add.request(concerns="a", data=Item(name="tea", price=2.5)),
            plain.request(concerns="a", data={"x": 1}),
            nothing.request(concerns="a"),
        ],
    )
    assert ran.states == ["done"] * 5
    comment_job = (Comment("good"), "first", "a", 1, "comment")
    assert seen == [comment_job, Rating(4), Item(name="tea", price=2.5), {"x": 1}, None]
    assert set(app.handlers) == {"comment", "rate", "item", "plain", "nothing"}


@pytest.mark.parametrize("data", [b"{", b"\xff", b'{"text": 3}', b"[]", b'{"text": "a", "rating": "many"}'])
def test_a_body_that_is_no_json_or_does_not_fit_is_poison_and_is_not_shown(data: bytes) -> None:
    app = App("shop")

    @app.action("comment")
    async def comment(body: Comment) -> None:
        raise AssertionError("it must not be called")

    ran = run(app, [raw("comment", data)])
    assert ran.states == ["poisoned"]
    assert problem(ran)[0] == "invalid_body"
    assert "many" not in problem(ran)[1]


def test_a_body_that_does_not_fit_a_pydantic_model_is_told_without_its_values() -> None:
    app = App("shop")

    @app.action("item")
    async def add(item: Item) -> None:
        raise AssertionError("it must not be called")

    ran = run(app, [raw("item", b'{"name": "tea", "price": "secret"}')])
    code, detail = problem(ran)
    assert code == "invalid_body"
    assert "$.price" in detail
    assert "secret" not in detail


def test_null_is_dropped_where_the_body_may_not_be_none() -> None:
    app = App("shop")
    seen: list[object] = []

    @app.action("strict")
    async def strict(body: Comment) -> None:
        seen.append(body)

    @app.action("loose")
    async def loose(body: Comment | None) -> None:
        seen.append(body)

    @app.action("item")
    async def item(body: Item | None) -> None:
        seen.append(body)

    ran = run(app, [raw("strict", b" null "), raw("loose", b"null"), raw("item", b"null")])
    assert ran.states == ["failed", "done", "done"]
    assert problem(ran)[0] == "no_data"
    assert seen == [None, None]
    assert ran.counts.of("strict").no_data == 1


def test_callers_hear_at_once_of_data_that_would_not_be_taken() -> None:
    app = App("shop")

    @app.action("comment")
    async def comment(body: Comment) -> None: ...

    with pytest.raises(BodyMisfit):
        comment.request(concerns="a", data={"text": 1})
    request = comment.request(concerns="a", data=Comment("x"), expires_in=5)
    assert msgspec.json.decode(msgspec.json.encode(request)) == {
        "action": "comment",
        "concerns": "a",
        "data": {"text": "x", "rating": 5},
        "expires_in": 5,
    }


def test_a_handler_returns_its_result_or_where_it_is() -> None:
    app = App("shop")

    @app.action("value")
    async def value() -> dict[str, int]:
        return {"votes": 3}

    @app.action("place")
    def place() -> Located:
        return Located("/items/7", Rating(3))

    @app.action("odd")
    def odd() -> object:
        return object()

    @app.action("large")
    def large() -> str:
        return "x" * 70_000

    @app.action("elsewhere")
    def elsewhere() -> Located:
        return Located("https://user:secret@example.org/")

    names = ("value", "place", "odd", "large", "elsewhere")
    ran = run(app, [raw(name, b"{}", concerns=name) for name in names])
    assert ran.states == ["done", "done", "poisoned", "poisoned", "poisoned"]
    assert outcome(ran).result == b'{"votes":3}'
    assert (outcome(ran, 1).location, outcome(ran, 1).result) == ("/items/7", b'{"stars":3}')
    assert [problem(ran, index)[0] for index in (2, 3, 4)] == ["invalid_result", "result_too_large", "error"]


def test_passing_errors_are_tried_again_and_the_clock_jumps_over_the_waits() -> None:
    app, calls = App("shop"), []

    class Busy(Exception):
        pass

    @app.action("do", passing=(Busy,))
    async def do(job: Job) -> str:
        calls.append(job.attempt)
        errors: list[Exception] = [Again("later", seconds=100), OSError("no route"), TimeoutError(), Busy()]
        if len(calls) <= len(errors):
            raise errors[len(calls) - 1]
        return "at last"

    ran = run(app, [raw("do", b"{}")])
    assert (ran.states, calls) == (["done"], [1, 2, 3, 4, 5])
    assert ran.seconds == pytest.approx(100 + 10 + 15 + 20, abs=1)
    assert (outcome(ran).attempts, ran.counts.of("do").retried) == (5, 4)


def test_what_never_passes_is_poison_after_eleven_attempts() -> None:
    app = App("shop")

    @app.action("do")
    def do() -> None:
        raise ConnectionError("the database is gone")

    ran = run(app, [raw("do", b"{}", id="x"), raw("do", b"{}", id="y")])
    assert ran.attempts == ("x",) * 11 + ("y",) * 11
    assert ran.states == ["poisoned", "poisoned"]
    code, detail = problem(ran)
    assert code == "retries_exhausted"
    assert detail.endswith("ConnectionError: the database is gone")
    assert ran.seconds == pytest.approx(550, abs=1)


def test_a_refusal_and_other_errors() -> None:
    app = App("shop")

    @app.action("no")
    async def no() -> None:
        raise Refused("a rating is 1 to 5")

    @app.action("defect")
    async def defect() -> None:
        raise KeyError("x")

    ran = run(app, [raw("no", b"{}"), raw("defect", b"{}")])
    assert ran.states == ["failed", "poisoned"]
    assert problem(ran) == ("refused", "a rating is 1 to 5")
    assert "KeyError: 'x'" in problem(ran, 1)[1]


def test_an_asynchronous_handler_that_takes_too_long_is_cancelled_which_is_passing() -> None:
    app, cancelled = App("shop"), []

    @app.action("do", timeout=0.02, retries=1)
    async def do() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    ran = run(app, [raw("do", b"{}")])
    assert (ran.states, cancelled) == (["poisoned"], [True, True])
    assert problem(ran)[0] == "retries_exhausted"


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_a_handler_that_would_end_its_process_ends_itself_alone(kind: type[BaseException]) -> None:
    app = App("shop")

    @app.action("in_loop")
    async def in_loop() -> None:
        raise kind

    @app.action("in_thread")
    def in_thread() -> None:
        raise kind

    ran = run(app, [raw("in_loop", b"{}"), raw("in_thread", b"{}")])
    assert ran.states == ["poisoned", "poisoned"]
    assert [kind.__name__ in problem(ran, own)[1] for own in (0, 1)] == [True, True]


def test_a_thread_that_does_not_end_leaves_its_action_open_and_the_rest_is_reported() -> None:
    app, free = App("shop"), threading.Event()

    @app.action("hang", timeout=0.05)
    def hang() -> None:
        free.wait(60)

    @app.action("do")
    async def do() -> None: ...

    ran = run(app, [raw("hang", b"{}", concerns="a"), raw("do", b"{}", concerns="b"), raw("do", b"{}", concerns="a")])
    free.set()
    assert ran.states == [None, "done", None]


def test_things_are_done_in_order_and_side_by_side() -> None:
    app, under_way, most, seen = App("shop", concurrency=4), set[str](), [0], []

    @app.action("do")
    async def do(body: int, job: Job) -> None:
        assert job.concerns not in under_way
        under_way.add(job.concerns)
        most[0] = max(most[0], len(under_way))
        await asyncio.sleep(0)
        under_way.discard(job.concerns)
        seen.append((job.concerns, body))

    requests = [do.request(concerns=f"thing-{n % 7}", data=n) for n in range(70)]
    ran = run(app, requests)
    assert ran.states == ["done"] * 70
    assert most[0] == 4
    for thing in range(7):
        own = [body for concerns, body in seen if concerns == f"thing-{thing}"]
        assert own == sorted(own)


def test_a_held_thing_stays_without_outcomes_and_others_go_on() -> None:
    app = App("shop")

    @app.action("do", after_poison="hold")
    async def do(body: int) -> None:
        if body == 1:
            raise ValueError("bad")

    ran = run(app, [do.request(concerns=concerns, data=body) for concerns, body in (("a", 1), ("a", 2), ("b", 3))])
    assert ran.states == ["poisoned", None, "done"]


def test_what_expires_before_its_next_attempt_is_not_tried_again() -> None:
    app = App("shop")

    @app.action("do")
    async def do() -> None:
        raise Again

    ran = run(app, [raw("do", b"{}", expires_in=7.0)])
    assert (ran.states, outcome(ran).attempts) == (["expired"], 2)


def test_an_action_that_the_app_does_not_have_fails() -> None:
    assert problem(run(App("shop"), [raw("unknown", b"{}")]))[0] == "action_unknown"


def test_pools_are_opened_before_and_closed_after() -> None:
    app, seen = App("shop"), []

    @app.on_start
    async def open_pool() -> None:
        seen.append("open")

    @app.on_stop
    def close_pool() -> None:
        seen.append("close")

    @app.action("do")
    async def do() -> None:
        seen.append("do")

    asyncio.run(run_async(app, [raw("do", b"{}")]))
    assert seen == ["open", "do", "close"]


def test_a_handler_can_still_be_called_as_it_was_written() -> None:
    app = App("shop")

    @app.action("add")
    def add(body: Rating) -> int:
        """Adds one."""
        return body.stars + 1

    assert (add(Rating(3)), add.__name__, add.__doc__) == (4, "add", "Adds one.")


@pytest.mark.parametrize(
    "make",
    [
        lambda: App(""),
        lambda: App("x", concurrency=0),
        lambda: App("x", order="any"),  # type: ignore[arg-type]
        lambda: App("x").action("a", retries=-1),
        lambda: App("x").action("a", timeout=0),
        lambda: App("x").action("a", after_poison="stop"),  # type: ignore[arg-type]
        lambda: App("x").action("a", max_per_second=0),
        lambda: App("x").action("a", wait_seconds=-1),
        lambda: App("x").action("a\nb")(lambda: None),
        lambda: App("x").action("a")(_two_bodies),
        lambda: App("x").action("a")(_any_number),
        lambda: _twice(App("x")),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_declared(make: Any) -> None:
    with pytest.raises(InvalidRequest):
        make()


def _two_bodies(one: int, other: int) -> None: ...


def _any_number(*bodies: int) -> None: ...


def _twice(app: App) -> None:
    app.action("a")(lambda: None)
    app.action("a")(lambda: None)


@pytest.mark.parametrize(
    "location", ["items/7", "http://example.org", "//example.org/x", "/a b", "", "https://", "javascript:alert(1)"]
)
def test_a_location_is_a_path_or_an_https_address(location: str) -> None:
    with pytest.raises(ValueError, match="A location is"):
        Located(location)
    assert Located("https://example.org/items/7").location.endswith("7")


def test_a_wait_that_a_handler_asks_for_is_a_number() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        Again(seconds=-1)

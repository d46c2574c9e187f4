"""Every public method of the clients says what it does, with an example that is Python; every public object says what it is."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import restante
import restante.aio
from restante.client.batches import acknowledger_async, acknowledger_sync, batches_async, batches_sync
from restante.client.consignments import consignments_async, consignments_sync
from restante.client.feed import feed_async, feed_sync
from restante.client.groups import groups_async, groups_sync
from restante.client.jobs import jobs_async, jobs_sync
from restante.client.live import live_async, live_sync
from restante.client.publishing import pipeline_async, pipeline_sync
from restante.client.sources import sources_async, sources_sync
from restante.client.surface import asynchronous, sync
from restante.server.serve import ServedHub
from restante.work import ActionHandler, App, Job

CLASSES: list[type] = [
    *(sync.Hub, sync.Producer, sync.Recipient, sync.Bundle),
    *(asynchronous.Hub, asynchronous.Producer, asynchronous.Recipient, asynchronous.Bundle),
    *(batches_sync.Batches, batches_sync.Batch, acknowledger_sync.Acknowledger),
    *(batches_async.Batches, batches_async.Batch, acknowledger_async.Acknowledger),
    *(consignments_sync.Consignment, consignments_async.Consignment),
    *(feed_sync.Feed, feed_sync.Snapshot, feed_async.Feed, feed_async.Snapshot),
    *(groups_sync.Group, groups_sync.SharedPage, groups_async.Group, groups_async.SharedPage),
    *(live_sync.Live, live_sync.LiveSent, live_async.Live, live_async.LiveSent),
    *(pipeline_sync.Pipeline, pipeline_async.Pipeline, sources_sync.Sources, sources_async.Sources),
    *(restante.ProducerClient, restante.BufferedProducer, restante.aio.ProducerClient, restante.aio.BufferedProducer),
    *(jobs_sync.Jobs, jobs_async.Jobs, restante.Parcel, App, ActionHandler, Job),
]
INNER = {
    "Parcel": {
        *("of", "holds", "held", "check_unpublished", "check_messages", "identify", "give_numbers"),
        *("clear_numbers", "set_published", "take_unheard"),
    },
    "SharedPage": {"passed", "left"},
    "ActionHandler": {"arguments"},
}
"""What producers do with a parcel, groups with a page, and workers with a handler, which programs have no use for."""
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def methods() -> Iterator[tuple[type, str, Any]]:
    for kind in CLASSES:
        for name, value in inspect.getmembers(kind, lambda one: inspect.isfunction(one) or inspect.ismethod(one)):
            if not name.startswith("_") and name not in INNER.get(kind.__name__, ()):
                yield kind, name, value


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_a_class_says_what_it_is(kind: type) -> None:
    assert (kind.__doc__ or "").strip()
    assert "__repr__" in {name for each in kind.__mro__[:-1] for name in vars(each)}


@pytest.mark.parametrize(
    ("kind", "name", "value"), list(methods()), ids=lambda one: one if isinstance(one, str) else ""
)
def test_a_method_has_an_example(kind: type, name: str, value: Any) -> None:
    shown = EXAMPLE.search(inspect.getdoc(value) or "")
    assert shown is not None, (
        f"{kind.__module__}.{kind.__name__}.{name} has no example: ```python … ``` in its docstring"
    )
    code = shown[1]
    compile(code, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    called = {
        node.attr
        for node in ast.walk(ast.parse(f"async def _():\n{indented(code)}"))
        if isinstance(node, ast.Attribute)
    }
    assert name in called, f"the example of {kind.__name__}.{name} does not use it"
    assert "async" in f"{kind.__module__} {name}" or not re.search(r"\b(await|async)\b", code)


@pytest.mark.parametrize("module", [restante, restante.aio], ids=["restante", "restante.aio"])
@pytest.mark.parametrize("name", ["open", "connect"])
def test_a_door_has_an_example(module: Any, name: str) -> None:
    shown = EXAMPLE.search(inspect.getdoc(getattr(module, name)) or "")
    assert shown is not None
    compile(shown[1], name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert f"{module.__name__}.{name}(" in shown[1]


def indented(code: str) -> str:
    return "".join(f"    {line}\n" for line in code.splitlines())


def test_objects_say_what_they_are(either: sync.Hub) -> None:
    either.send(recipient="ada", id="one", text="x")
    bundle = either.recipient("ada").peek()
    shown = repr(either)
    assert shown == "<Hub in this process>" or re.fullmatch(r"<Hub at http://127\.0\.0\.1:\d+>", shown)
    at = shown.removeprefix("<Hub ").removesuffix(">")
    assert repr(either.producer) == f"<Producer of the hub {at}>"
    assert repr(either.batches) == f"<Batches of the hub {at}>"
    assert repr(either.recipient("ada")) == "<Recipient 'ada'>"
    assert re.fullmatch(r"<Bundle [-0-9a-f]{36}: 1 message of default/default>", repr(bundle))
    with either.batches.acknowledging() as acknowledger, either.feed() as feed, either.producer.pipeline() as pipeline:
        assert repr(acknowledger) == "<Acknowledger: 0 items acknowledged>"
        assert repr(feed) == f"<Feed of the hub {at}, at {{}}>"
        assert repr(either.snapshot()) == f"<Snapshot of the hub {at}, at {{}}>"
        assert repr(pipeline) == "<Pipeline: 0 sends, 0 of them answered>"
    with restante.ProducerClient(either) as producer, restante.BufferedProducer(either) as buffered:
        assert repr(producer) == f"<ProducerClient of the hub {at}>"
        assert repr(buffered) == "<BufferedProducer: 0 messages not told of yet>"
    with either.recipient("ada").live(after=0) as live:
        assert repr(live).startswith("<Live: as far as number")


def test_asynchronous_objects_say_it_too(running: ServedHub) -> None:
    async def shown() -> list[str]:
        async with restante.aio.connect(running.url) as hub, hub.producer.pipeline() as pipeline:
            return [repr(one) for one in (hub, hub.producer, hub.link, pipeline)]

    at = f"at {running.url}"
    told = asyncio.run(shown())
    assert told[:3] == [f"<Hub {at}>", f"<Producer of the hub {at}>", f"<AsyncHttpLink to the hub {at}>"]


def test_a_hub_that_is_not_open_yet_says_what_to_do(running: ServedHub, tmp_path: Path) -> None:
    for opening in (restante.aio.open(tmp_path), restante.aio.connect(running.url)):
        early: Any = opening
        assert "not open yet; use it in an `async with` statement, or `await` it" in repr(early)
        with pytest.raises(AttributeError, match="has no 'send': it is not open yet; use it in an `async with`"):
            early.send(recipient="ada", text="x")


def test_the_table_of_a_bundle_has_ids_as_texts(either: sync.Hub) -> None:
    made = "0198c5a2-6f1e-7c3b-9d4a-1b2c3d4e5f60"
    either.send([{"recipient": "ada", "id": "one", "text": "x"}, {"recipient": "ada", "id": made, "text": "y"}])
    bundle = either.recipient("ada").peek()
    assert bundle is not None
    assert bundle.table["id"].to_pylist() == ["one", made]
    assert "text_id" not in bundle.table.column_names
    assert bundle.raw_table.schema.field("id").type == pa.binary(16)
    assert bundle.raw_table["text_id"].to_pylist() == ["one", None]
    assert bundle.table.drop_columns(["id"]).equals(bundle.raw_table.drop_columns(["id", "text_id"]))
    read_only = ["sequence_number", "published_at", "collected_at", "state"]
    assert either.send(bundle.table.drop_columns(read_only)).duplicates == 2

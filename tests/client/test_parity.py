"""The surfaces are one: in process and over the network, for programs that wait and for asynchronous ones."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import restante.client.surface
from restante import aio, assembly
from restante.client.batches import acknowledger_async, acknowledger_sync, batches_async, batches_sync
from restante.client.consignments import consignments_async, consignments_sync
from restante.client.feed import feed_async, feed_sync
from restante.client.groups import groups_async, groups_sync
from restante.client.live import live_async, live_sync
from restante.client.producers import producer_async, producer_sync
from restante.client.publishing import buffered_async, buffered_sync, pipeline_async, pipeline_sync
from restante.client.sockets.publish_socket_async import AsyncPublishSocket
from restante.client.sockets.publish_socket_sync import PublishSocket
from restante.client.surface import asynchronous, connect, surface, sync
from restante.client.transport import link
from restante.client.transport.http_async import AsyncHttpLink
from restante.client.transport.http_sync import HttpLink
from restante.hub.door.hub import OpenHub
from restante.hub.door.in_process import InProcess

LINK_EXTRAS = {"encode", "frames", "with_retrying"}
"""What a link over HTTP has beyond a link: for producers that count their attempts themselves."""
PLAIN = {
    "recipient",
    "pipeline",
    "send",
    "get",
    "acknowledging",
    "open",
    "consignment",
    "consignments",
    "feed",
    "snapshot",
    "live",
    "group",
    "poison",
    "groups",
    "list",
    "pending",
    "progress",
}
"""Plain calls in the asynchronous surface: nothing is waited for. (`send` is one of a pipeline, not of a producer; what
`open` and `consignment` give is awaited, or entered; the last nine are iterated.)"""


def methods(kind: type) -> dict[str, inspect.Signature]:
    own = {name: value for name, value in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
    return {name: inspect.signature(value) for name, value in own.items()}


def parameters(kind: type) -> dict[str, list[tuple[str, object, object]]]:
    return {
        name: [(each.name, each.kind, each.default) for each in signature.parameters.values()]
        for name, signature in methods(kind).items()
    }


@pytest.mark.parametrize(
    ("waiting", "asynchronous_one"),
    [
        (sync.Hub, asynchronous.Hub),
        (sync.Producer, asynchronous.Producer),
        (sync.Recipient, asynchronous.Recipient),
        (sync.Bundle, asynchronous.Bundle),
        (batches_sync.Batches, batches_async.Batches),
        (batches_sync.Batch, batches_async.Batch),
        (acknowledger_sync.Acknowledger, acknowledger_async.Acknowledger),
        (consignments_sync.Consignment, consignments_async.Consignment),
        (feed_sync.Feed, feed_async.Feed),
        (feed_sync.Snapshot, feed_async.Snapshot),
        (groups_sync.Group, groups_async.Group),
        (groups_sync.SharedPage, groups_async.SharedPage),
        (live_sync.Live, live_async.Live),
        (live_sync.LiveSent, live_async.LiveSent),
        (pipeline_sync.Pipeline, pipeline_async.Pipeline),
        (link.Link, link.AsyncLink),
        (HttpLink, AsyncHttpLink),
        (PublishSocket, AsyncPublishSocket),
        (producer_sync.ProducerClient, producer_async.ProducerClient),
    ],
    ids=lambda kind: kind.__name__,
)
def test_both_kinds_of_program_have_the_same_calls(waiting: type, asynchronous_one: type) -> None:
    assert parameters(waiting) == parameters(asynchronous_one)


@pytest.mark.parametrize("name", surface.__all__)
def test_types_are_imported_from_the_surface_and_show_themselves_so(name: str) -> None:
    found = getattr(restante.client.surface, name)
    assert found is getattr(surface, name)
    assert "surface.surface" not in f"{found!r} {found.__module__}"


def test_the_surface_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        _ = restante.client.surface.Nothing


@pytest.mark.parametrize(
    ("promised", "kept"), [(link.Link, HttpLink), (link.AsyncLink, AsyncHttpLink)], ids=lambda kind: kind.__name__
)
def test_what_is_promised_is_there_and_nothing_else(promised: type, kept: type) -> None:
    offered = parameters(kept)
    assert offered.keys() >= LINK_EXTRAS
    assert parameters(promised) == {name: offered[name] for name in offered.keys() - LINK_EXTRAS}


@pytest.mark.parametrize(("promised", "kept"), [(link.Link, OpenHub), (link.AsyncLink, InProcess)])
def test_a_hub_in_process_keeps_the_promise_of_a_link(promised: type, kept: type) -> None:
    offered = parameters(kept)
    assert parameters(promised) == {name: offered[name] for name in parameters(promised)}


@pytest.mark.parametrize(
    "kind",
    [
        asynchronous.Hub,
        asynchronous.Producer,
        asynchronous.Recipient,
        batches_async.Batches,
        batches_async.Batch,
        acknowledger_async.Acknowledger,
        consignments_async.Consignment,
        feed_async.Feed,
        groups_async.Group,
        live_async.Live,
        live_async.LiveSent,
    ],
    ids=lambda kind: kind.__name__,
)
def test_asynchronous_calls_are_awaited(kind: type) -> None:
    plain = {
        name
        for name, value in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and not inspect.iscoroutinefunction(value) and not inspect.isasyncgenfunction(value)
    }
    assert plain <= PLAIN


def test_both_producers_are_made_alike() -> None:
    waiting = inspect.signature(producer_sync.ProducerClient).parameters
    awaiting = inspect.signature(producer_async.ProducerClient).parameters
    assert [(each.name, each.kind, each.default) for each in waiting.values()] == [
        (each.name, each.kind, each.default) for each in awaiting.values()
    ]


def test_both_buffered_producers_are_made_alike() -> None:
    waiting = inspect.signature(buffered_sync.BufferedProducer).parameters
    awaiting = inspect.signature(buffered_async.BufferedProducer).parameters
    assert [(each.name, each.kind, each.default) for each in waiting.values()] == [
        (each.name, each.kind, each.default) for each in awaiting.values()
    ]


def test_both_doors_take_the_same() -> None:
    assert inspect.signature(connect.connect).parameters == inspect.signature(aio.connect).parameters
    assert aio.open is assembly.open_async


HEAVY = {
    "uvicorn",
    "prometheus_client",
    "typer",
    "rich",
    "sqlite3",
    "restante.hub",
    "restante.stores",
    "restante.server",
}


@pytest.mark.parametrize(
    "program",
    [
        "import restante.client.surface.connect",
        "import restante; restante.connect().close()",
        "import restante.aio; restante.aio.connect()",
        "import restante; restante.ProducerClient('http://127.0.0.1:1').close()",
        "import restante.aio; restante.aio.ProducerClient",
    ],
)
def test_a_client_needs_nothing_of_a_server(program: str) -> None:
    told = f"import sys; {program}; print(sorted(set(sys.modules) & {HEAVY!r}))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"

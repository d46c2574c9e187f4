"""Every call is answered by a hub and said over HTTP, by functions that take just this call and give what it answers."""

from __future__ import annotations

import pkgutil
from functools import partial
from importlib import import_module
from typing import Any, get_args, get_type_hints

import pytest

from restante import calls
from restante.calls.batches import AddItems, OpenBatch
from restante.calls.call import Call, query_names, query_of
from restante.calls.groups import SendHeartbeat
from restante.calls.mailboxes import ListRecipients, Peek, ReadHistory
from restante.calls.removal import Erase
from restante.calls.shards import ShardCall
from restante.client.transport import http_async, http_sync
from restante.client.transport.exchange import Step
from restante.client.transport.requests import said
from restante.hub.door.subjects import FUNCTIONS
from restante.model.publishing.message import State

for module in pkgutil.iter_modules(calls.__path__, f"{calls.__name__}."):
    import_module(module.name)

CALLS = sorted(
    (kind for kind in Call.__subclasses__() if kind is not ShardCall and kind.__module__.startswith(calls.__name__)),
    key=lambda kind: kind.__name__,
)
"""Those between shards, and between a door and a shard, are no routes."""
OF_EACH_HUB = {ListRecipients}
"""What each hub adds to the table for itself."""


def answer_of(kind: type[Call[Any]]) -> Any:
    (base,) = kind.__orig_bases__  # type: ignore[attr-defined]  # a generic base
    return get_args(base)[0]


def taken_and_given(function: Any, place: int) -> tuple[Any, Any]:
    hints = get_type_hints(function)
    given = hints.pop("return")
    return list(hints.values())[place], given


@pytest.mark.parametrize("kind", [kind for kind in CALLS if kind not in OF_EACH_HUB])
def test_a_hub_answers_each_call(kind: type[Call[Any]]) -> None:
    function = FUNCTIONS[kind]
    if isinstance(function, partial):
        taken, procedure = taken_and_given(function.args[0], 1)
        assert (taken, get_args(procedure)[-1]) == (kind, answer_of(kind)), "the last type of a procedure is its result"
    else:
        assert taken_and_given(function, 1) == (kind, answer_of(kind))


@pytest.mark.parametrize("kind", CALLS)
def test_each_call_is_said_over_http(kind: type[Call[Any]]) -> None:
    assert http_sync.DIALOGUES == http_async.DIALOGUES
    taken, given = taken_and_given(http_sync.DIALOGUES[kind], 1)
    assert taken == kind
    assert get_args(given) == (Step, Any, answer_of(kind))


def test_a_query_holds_the_options_that_say_something() -> None:
    peek = Peek("ada", origins=("a", "b"), max_messages=3, wait=2)
    assert query_of(peek, without=("wait",)) == (("origin", "a"), ("origin", "b"), ("max_messages", "3"))
    assert query_of(ReadHistory("ada", state=State.WAITING)) == (("state", "waiting"),)
    assert query_of(Erase("ada")) == ()
    assert query_of(Erase("ada", dry_run=True)) == (("dry_run", "true"),)


def test_what_stands_in_the_path_is_no_option() -> None:
    names = {"origin", "origin_group", "bundle_id", "format", "max_messages", "max_weight", "wait"}
    assert query_names(Peek) == names


def test_a_body_says_what_must_be_there_and_the_options_that_say_something() -> None:
    assert said(AddItems("b", 3), without=("batch_id",)) == {"count": 3}
    assert said(SendHeartbeat("g", "m", revision=2), without=("group", "member_id")) == {"revision": 2}
    assert said(OpenBatch(batch_id="b", key="night")) == {"id": "b", "key": "night"}

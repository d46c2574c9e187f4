"""The load generator of `examples/catalog` sees what the API does, errors as well."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.catalog.load import Answers, User, load, stocked
from tests.client.scripted import ScriptedServer, problem
from tests.examples.catalog_world import KEY, ServedCatalog, served_catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[ServedCatalog]:
    with served_catalog(tmp_path) as world:
        yield world


def driven(world: ServedCatalog, *, key: str = KEY) -> Answers:
    async def drive() -> Answers:
        items = await stocked(world.url, KEY, 3)
        return await load(world.url, key, items, users=5, seconds=0.3)

    return asyncio.run(drive())


def test_each_action_that_was_accepted_is_counted_and_none_is_an_error(catalog: ServedCatalog) -> None:
    answers = driven(catalog)
    assert (answers.errors, answers.examples) == (0, [])
    assert sum(answers.statuses.values()) == len(answers.seconds) >= 5 * 9
    asked = catalog.asked()
    assert {(action.id, action.item_id) for action in answers.accepted} == {(one.id, one.item_id) for one in asked}


def test_a_busy_hub_is_counted_as_errors(tmp_path: Path) -> None:
    with ScriptedServer(problem(429, "overloaded", retry_after=1)) as hub, served_catalog(tmp_path, hub.url) as catalog:
        answers = driven(catalog)
    assert answers.accepted == []
    assert answers.errors == answers.statuses[503] > 0
    assert len(answers.examples) == 5
    assert "503" in answers.examples[0]


def test_a_connection_that_is_refused_is_an_error() -> None:
    answers = Answers()

    async def walk() -> None:
        async with asyncio.timeout(30):
            user = User("http://127.0.0.1:9", KEY, answers, seed=1)
            await user.walk(["/catalogitem/7"], asyncio.get_running_loop().time() + 0.05)

    asyncio.run(walk())
    assert answers.errors > 0
    assert len(answers.seconds) == 0

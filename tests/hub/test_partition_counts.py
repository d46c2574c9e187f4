"""How many partitions a data folder may have: a new one a power of two, an older one what it has."""

from __future__ import annotations

from pathlib import Path

import pytest

import restante
from restante import errors
from restante.hub.engine.partitions import create_deed
from restante.stores.sqlite import SqliteStore


@pytest.mark.parametrize("count", [3, 10, 10_000])
def test_a_new_folder_of_another_count_is_refused_and_one_of_a_power_of_two_can_be_made_then(
    tmp_path: Path, count: int
) -> None:
    with pytest.raises(errors.InvalidSettings, match=f"a power of two from 1 to 8,192 .* not {count:,}"):
        restante.open(tmp_path, settings=restante.Settings(partition_count=count))
    with restante.open(tmp_path, settings=restante.Settings(partition_count=8)) as hub:
        assert len(hub.partitions()) == 8


def test_an_older_folder_keeps_its_count_whatever_the_settings_say(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    create_deed(store, 10, 18, store.raise_fences(10))
    store.close()
    for settings in (restante.Settings(), restante.Settings(partition_count=10), restante.Settings(partition_count=7)):
        with restante.open(tmp_path, settings=settings) as hub:
            assert len(hub.partitions()) == 10
            hub.producer.send(restante.Message(recipient="ada", data=1))

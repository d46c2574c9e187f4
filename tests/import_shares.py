"""Workers that import the test files in turns: pytest compiles each file once for all of them, and not once in each.

After a change to many files, or in a new checkout, pytest writes the assertions of each file anew before it compiles it, which
takes longer than to collect its tests. Workers collect in one order, so each would do it for every file at the same time
as the others. Here each first imports its share, and finds the others' files compiled when it collects.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest


def import_own_share(config: pytest.Config) -> None:
    """In a worker: import its share of the files that will be collected. What cannot be imported is told by collecting."""
    told = getattr(config, "workerinput", None)
    if told is None:
        return
    wanted = [file for file in _files(config) if not _ignored(config, file)]
    for file in share_of(wanted, int(told["workerid"].removeprefix("gw")), told["workercount"]):
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(config.rootpath).with_suffix("").parts))


def share_of(files: Iterable[Path], worker: int, workers: int) -> list[Path]:
    """The files of one worker, neighbours in different shares. A worker that takes the place of one that died has a number beyond."""
    return sorted(files)[worker % workers :: workers]


def _files(config: pytest.Config) -> Iterator[Path]:
    for argument in config.args:
        path = config.invocation_params.dir / argument.partition("::")[0]
        yield from path.rglob("test_*.py") if path.is_dir() else [path]


def _ignored(config: pytest.Config, file: Path) -> bool:
    return bool(config.hook.pytest_ignore_collect(collection_path=file, config=config))

"""The workloads, one file each, in the order they are run.

A workload's file opens with its title, and has `run(bench)` that gives an `Outcome`. It is named by `--only`.
"""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from bench.context import Bench
from bench.outcome import Outcome

ORDER = (
    "publish_one",
    "publish_many",
    "publish_again",
    "peek",
    "dequeue",
    "singles",
    "sustained",
    "growth",
    "open_store",
    "large_store",
    "emptied",
)


class Workload(Protocol):
    __doc__: str | None

    def run(self, bench: Bench) -> Outcome: ...


def workload(name: str) -> Workload:
    return cast("Workload", importlib.import_module(f"bench.workloads.{name}"))


def title(name: str) -> str:
    lines = (workload(name).__doc__ or name).splitlines()
    return lines[0].rstrip(".")

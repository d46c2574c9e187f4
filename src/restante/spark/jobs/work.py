"""The means of a job, and its outcome at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from restante.client.transport.address import DEFAULT_URL
from restante.spark.tables.folders import absolute

Figure = int | float | str | None


def _untold(text: str) -> None:
    """Tell nobody: nobody listens."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """The surroundings of a job: its Spark session, its hub, and the place of its tables."""

    spark: SparkSession
    url: str = DEFAULT_URL
    token: str | None = None
    tables: str = "./tables"
    """A folder, or any place that Spark can write to. A relative one begins where this program was started."""
    tell: Callable[[str], None] = field(default=_untold)
    """Hears what the job is about, a line at a time."""

    def place(self, *names: str) -> str:
        """Where a table of this name lies; without one, where they all do. From the root on: Delta takes nothing else."""
        return "/".join((absolute(self.tables).rstrip("/"), *names))

    @property
    def hub(self) -> dict[str, str]:
        """The options of `format("restante")` that lead to the hub."""
        return {"url": self.url} if self.token is None else {"url": self.url, "token": self.token}


class Outcome(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The outcome of a job: figures for people and machines, and a table to look at, if there is one."""

    figures: dict[str, Figure]
    table: pa.Table | None = None
    title: str | None = None
    """The title of the table."""

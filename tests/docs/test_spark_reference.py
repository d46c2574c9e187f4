"""The reference of Spark against the code: every option of the format, every column, and every option of every job."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from restante.spark import __all__ as functions
from restante.spark.running.registry import Job, Option, all_jobs
from restante.spark.source import options
from restante.spark.source.columns import WRITTEN_FIELDS
from restante.spark.source.schemas import CHANGES

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
ROW = re.compile(r"^\| (?P<first>[^|]+) \|(?P<rest>.*)\|$", re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")


def section(page: str, heading: str) -> str:
    """What stands below a heading, up to the next one of whatever level."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    _, found, below = f"\n{text}".partition(f"\n{heading}\n")
    assert found, f"{page} has no heading {heading!r}"
    return re.split(r"^#+ ", below, maxsplit=1, flags=re.MULTILINE)[0]


def firsts(page: str, heading: str) -> list[str]:
    """The names in the first column of the tables below a heading, in order."""
    return [name for row in ROW.finditer(section(page, heading)) for name in SPAN.findall(row["first"])]


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("## Options of all", options._PLACE),
        ("## Reading", options._READING),
        ("## Writing", options._WRITING),
    ],
    ids=["all", "reading", "writing"],
)
def test_every_option_of_the_format_is_told_and_no_other(heading: str, names: tuple[str, ...]) -> None:
    assert set(firsts("spark.md", heading)) - set(starts()) == set(names)


def starts() -> list[str]:
    """What `startingPosition` may be; positions are told by an example."""
    return [*options._STARTS, '{"0": 17, "1": 0, …}']


def test_every_start_of_a_stream_is_told() -> None:
    told = firsts("spark.md", "## Reading")
    assert set(starts()) <= set(told)


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("### Columns that are read", tuple(CHANGES.fieldNames())),
        ("### Columns that are written", WRITTEN_FIELDS),
    ],
    ids=["read", "written"],
)
def test_every_column_is_told_and_no_other(heading: str, names: tuple[str, ...]) -> None:
    assert sorted(firsts("spark.md", heading)) == sorted(names)


def test_columns_that_are_read_are_told_with_their_types() -> None:
    types = {
        name: row["rest"].split("|")[0].strip()
        for row in ROW.finditer(section("spark.md", "### Columns that are read"))
        for name in SPAN.findall(row["first"])
    }
    assert types == {field.name: field.dataType.simpleString().replace("bigint", "long") for field in CHANGES}


def test_every_function_is_told_and_no_other() -> None:
    told = {name.partition("(")[0] for name in firsts("spark.md", "## Functions")} - {"restante.spark"}
    assert told == set(functions)


def test_every_job_is_told_and_no_other() -> None:
    text = (REFERENCE / "jobs.md").read_text(encoding="utf-8")
    assert re.findall(r"^## `([a-z-]+)`$", text, re.MULTILINE) == [job.name for job in all_jobs()]


@pytest.mark.parametrize("job", all_jobs(), ids=lambda job: job.name)
def test_every_option_of_a_job_is_told_with_what_it_may_be_and_its_default(job: Job) -> None:
    below = section("jobs.md", f"## `{job.name}`")
    assert job.summary in below
    told = [row[0].rpartition(" | ")[0] for row in ROW.finditer(below) if row["first"].startswith("`")]
    assert told == [f"| `{one.name}` | {one.type} | {default(one)}" for one in job.options()]


def default(option: Option) -> str:
    """As the page writes it."""
    value = option.default
    if value is None or value in ("", [], ()):
        return "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"{value:,}" if isinstance(value, int) else f"`{value}`"

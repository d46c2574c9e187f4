"""The tutorial "A nightly run in ten minutes": its blocks run one after the other, and print what it shows.

It starts a hub as it says, on a free port. Its Spark is the session of all tests, which `restante.spark.session()` finds.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from restante.cli.jobs.jobs_file import entries_of, read_jobs_file
from tests.docs.test_examples import SPARK_MARK, check_page, examples_of

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "nightly-run.md"


@pytest.mark.timeout(900)  # a machine with much else to do took 10 minutes
@pytest.mark.usefixtures("spark")
def test_the_tutorial_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_page(PAGE, tmp_path, mark=SPARK_MARK)


def test_the_tutorial_shows_what_its_blocks_print() -> None:
    printing = [block for block in examples_of(PAGE, mark=SPARK_MARK) if "print(" in block.code]
    assert printing
    assert [block.line + 1 for block in printing if not block.shown] == []


def test_the_schedule_of_the_tutorial_is_sound(tmp_path: Path) -> None:
    (schedule,) = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    path = tmp_path / "jobs.toml"
    path.write_text(schedule, encoding="utf-8")
    served = entries_of(path, read_jobs_file(path))
    assert [entry.job.name for entry in served] == ["analytical-store", "collection-report"]
